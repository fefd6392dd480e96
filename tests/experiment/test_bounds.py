"""Values that the simulator cannot take are refused, each in one line with its key."""

import pytest

from tests.experiment.conftest import Fails

SIZE = 'size = "8GiB"'
AT_MOST, AT_LEAST = "expected less than or equal to", "expected greater than or equal to"

CASES = [
    *(
        (
            'model = "pm983"',
            f'model = "{model}"\n{key} = {value}',
            f"devices.nvme.{key}: {limit if isinstance(value, str) else f'found {value}, {limit}'}",
        )
        for model, key, value, limit in (
            ("pm983", "read_command_ns", 3_600_000_000_001, f"{AT_MOST} 3600000000000"),
            ("pm983", "read_bandwidth", 2**53 + 1, f"{AT_MOST} 9007199254740992"),
            ("pm983", "units", 65_537, f"{AT_MOST} 65536"),
            ("pm983", "units", "true", "found true, expected a number"),
            ("pm983", "page_bytes", 511, f"{AT_LEAST} 512"),
            ("pm983", "program_bytes", 2**30 + 1, f"{AT_MOST} 1073741824"),
            ("st5000lm000", "outer_track_bytes", 2**53 + 1, f"{AT_MOST} 9007199254740992"),
            ("st5000lm000", "write_cache_requests", 0, f"{AT_LEAST} 1"),
            ("st5000lm000", "read_streams", 0, f"{AT_LEAST} 1"),
        )
    ),
    *(
        (
            'model = "pm983"',
            f'kind = "throttled"\nbps_read = {value}',
            f"devices.nvme.bps_read: found {value}, expected {wanted}",
        )
        for value, wanted in (
            ("0.0001", "0, or 0.001 to 1e12 a second"),
            ("1e+13", "0, or 0.001 to 1e12 a second"),
            ("nan", "a finite number"),
            ("true", "a number"),
        )
    ),
    *(
        (
            "[stacks.near]",
            f'[devices.lot]\nmodel = "pm983"\nsize = "1GiB"\ncount = {count}\n'
            f'[stacks.many]\nlevel = {level}\nmembers = ["lot"]\n[stacks.near]',
            f"stacks.many.members: found {count}, level {level} takes at most {most}",
        )
        for level, count, most in ((0, 256, 255), (1, 256, 255), (5, 65, 64), (6, 65, 64))
    ),
    ('layout = "n2"', 'layout = "f33"', "stacks.near.layout: found 33 copies, expected at most 32"),
    (
        'layout = "n2"',
        'layout = "n2"\nbitmap = true\nbitmap_chunk = "12k"',
        "stacks.near.bitmap_chunk: 12 KiB is not a power of two",
    ),
    (SIZE, SIZE + "\niodepth = true", "workloads.reads.iodepth: found true, expected a number"),
    (
        SIZE,
        SIZE + "\noffset = 1000",
        "workloads.reads.offset: found 1000 B, expected a multiple of the sector size, 512 B",
    ),
    (SIZE, SIZE + '\nrate_iops = "nan"', "workloads.reads.rate_iops: rate_iops 'nan': expected 0 or more a second"),
    (
        "[matrix]",
        "[settings.host]\nmd_ns = 3600000000001\n[matrix]",
        f"settings.host.md_ns: found 3600000000001, {AT_MOST} 3600000000000",
    ),
]


@pytest.mark.parametrize(("old", "new", "output"), CASES, ids=[case[2] for case in CASES])
def test_a_value_out_of_bounds_is_one_line(fails: Fails, old: str, new: str, output: str) -> None:
    assert fails(old, new) == f"exp.toml: {output}"
