"""Findings about bad-block lists."""

from dataclasses import replace

from blklab.md.audit.bad_blocks import check_empty_lists
from tests.md.test_good_copies import array_of
from tests.md.test_messages import bad_blocks, member


def test_lists_are_kept_while_the_array_is_degraded() -> None:
    """A list lets a rebuild go on behind a sector that cannot be read: its removal is advised later."""
    listed = member(0, sb_bad_blocks=bad_blocks())
    degraded = replace(array_of("raid1", 0, 2, {}), members=(listed,), degraded=1)
    (finding,) = check_empty_lists(degraded, None)
    assert finding.remedy == ()
    assert "keep it until the array is complete" in finding.message
    complete = replace(degraded, members=(listed, replace(listed, name="sdb", slot=1)), degraded=0)
    (finding,) = check_empty_lists(complete, None)
    assert finding.remedy == ("blklab md fix bbl /dev/md0",)
