"""Cells for runners with real fio."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.errors import UsageError
from blklab.experiment import host_cell, sim_cell
from blklab.experiment.cell_form import CellForm
from blklab.experiment.cells import ExperimentPlan, plan

HOST = """
title = "one disk"
destroy = ["wwn-0x5000"]

[targets.disk]
directory = "scratch"

[workloads.reads]
rw = "randread"
bs = "4k"
iodepth = 8
size = "64MiB"
"""

Expand = Callable[..., ExperimentPlan]


@pytest.fixture
def expand(tmp_path: Path) -> Expand:
    def expand(more: str = "", *, old: str = "", new: str = "", form: CellForm = host_cell.FORM) -> ExperimentPlan:
        assert old in HOST
        path = tmp_path / "exp.toml"
        path.write_text(HOST.replace(old, new, 1) + more if old else HOST + more)
        return plan(path, form=form)

    return expand


def test_a_cell_says_where_what_and_how(expand: Expand, tmp_path: Path) -> None:
    (cell,) = expand().cells
    document = dict(cell.document)
    (job,) = document.pop("jobs")
    assert job == {
        "name": "reads",
        "options": {
            "rw": "randread",
            "bs": "4k",
            "iodepth": "8",
            "iodepth_batch": "1",
            "iodepth_batch_complete": "1",
            "numjobs": "1",
            "random_distribution": "random",
            "ioengine": "libaio",
            "direct": "1",
            "offset": "0",
            "offset_increment": "0",
            "size": str(64 << 20),
        },
    }
    assert document == {
        "seed": 1,
        "target": {"name": "disk", "directory": str(tmp_path / "scratch"), "cache_bytes": 0},
        "command": None,
        "runtime_ns": None,
        "ramp_ns": 0,
        "interval_ns": 10**9,
        "host": {"drop_caches": True, "precondition": "none", "steady": None},
        "settings": {},
        "destroy": ["wwn-0x5000"],
        "file_bytes": 64 << 20,
    }
    assert cell.labels == {"stack": "disk", "workload": "reads", "repeat": "1"}


def test_sizes_mean_the_same_to_fio(expand: Expand) -> None:
    """To fio, `KiB` are 1000 bytes unless it is told otherwise (fio(1), kb_base)."""

    def words(new: str) -> dict[str, str]:
        (cell,) = expand(old='bs = "4k"', new=new).cells
        result: dict[str, str] = cell.document["jobs"][0]["options"]
        return result

    assert words('bs = "4KiB,1 MiB"')["bs"] == "4K,1M"
    assert words('bssplit = "4KiB/60:64kib/40"')["bssplit"] == "4K/60:64k/40"
    assert words('blockalign = "8KiB"')["blockalign"] in {"8K", "8192"}
    assert words('rate = "10MiB"')["rate"] == "10M"


def test_one_file_serves_every_cell_on_a_target(expand: Expand) -> None:
    more = "[workloads.far]\nsize = '32MiB'\noffset = '1GiB'\noffset_increment = '1GiB'\nnumjobs = 3"
    assert {cell.capacity for cell in expand(more).cells} == {(3 << 30) + (32 << 20)}


def test_percentages_are_of_the_targets_size(expand: Expand) -> None:
    change = {"old": 'directory = "scratch"', "new": 'directory = "scratch"\nsize = "1GiB"'}
    more = "[workloads.half]\noffset = '25%'\nsize = '50%'\nio_size = '10%'\n"
    more += "[workloads.rest]\noffset = '1MiB'"
    cells = expand(more, **change).cells
    half, rest = (cell.document["jobs"][0]["options"] for cell in cells[1:])
    assert (half["offset"], half["size"]) == (str(1 << 28), str(1 << 29))
    assert half["io_size"] == str((1 << 29) // 10)
    assert rest["size"] == str((1 << 30) - (1 << 20))


def test_one_setting_at_a_time_from_the_baseline(expand: Expand) -> None:
    more = "[sweep]\nnr_requests = [64, 256]\niodepth = [32]\n'vm.dirty_ratio' = [5]"
    cells = expand(more).cells
    tried = [[cell.labels[key] for key in ("nr_requests", "iodepth", "vm.dirty_ratio")] for cell in cells]
    assert tried == [
        ["as is", "as is", "as is"],
        ["64", "as is", "as is"],
        ["256", "as is", "as is"],
        ["as is", "32", "as is"],
        ["as is", "as is", "5"],
    ]
    assert [cell.document["settings"] for cell in cells] == [
        {},
        {"nr_requests": "64"},
        {"nr_requests": "256"},
        {},
        {"vm.dirty_ratio": "5"},
    ]
    depths = [cell.document["jobs"][0]["options"]["iodepth"] for cell in cells]
    assert depths == ["8", "8", "8", "32", "8"]


def test_a_workload_without_the_setting_has_no_cell_for_it(expand: Expand) -> None:
    more = "[workloads.grep]\ncommand = ['true']\n[sweep]\niodepth = [1]\nnomerges = [2]"
    cells = expand(more).cells
    tried = [(cell.labels["iodepth"], cell.labels["nomerges"]) for cell in cells]
    assert tried[:3] == [("as is", "as is"), ("1", "as is"), ("as is", "2")]
    assert tried[3:] == [("as is", "as is"), ("as is", "2")]


def test_every_combination_of_a_sweep(expand: Expand) -> None:
    more = "[sweep]\nmode = 'all'\nscheduler = ['none', 'bfq']\nnomerges = [0, 2]"
    assert [cell.document["settings"] for cell in expand(more).cells] == [
        {"scheduler": "none", "nomerges": "0"},
        {"scheduler": "none", "nomerges": "2"},
        {"scheduler": "bfq", "nomerges": "0"},
        {"scheduler": "bfq", "nomerges": "2"},
    ]


def test_settings_are_the_hosts_too(expand: Expand) -> None:
    more = "[settings]\nkernel = '4.19'\nscheduler = 'none'\nread_ahead = 128\nruntime = '3s'"
    (cell,) = expand(more).cells
    assert cell.document["settings"] == {"scheduler": "none", "read_ahead_kb": "128"}
    assert cell.document["runtime_ns"] == 3 * 10**9


def test_what_only_models_have_is_no_axis_of_a_host(expand: Expand) -> None:
    more = "[matrix]\nkernel = ['4.19', '6.1']\niodepth = [1, 2]\n"
    cells = expand(more).cells
    assert [cell.labels["iodepth"] for cell in cells] == ["1", "2"]
    assert all("kernel" not in cell.labels for cell in cells)


def test_a_command(expand: Expand) -> None:
    more = "[workloads.grep]\ncommand = ['git', 'grep', '-q', 'blah']\n[matrix]\nworkload = ['grep']"
    (cell,) = expand(more).cells
    assert cell.document["jobs"] == []
    assert cell.document["command"] == {"argv": ["git", "grep", "-q", "blah"], "directory": None, "times": 5}


def test_a_key_is_the_same_for_the_same_cell(expand: Expand) -> None:
    first, again = expand(), expand()
    assert [cell.key for cell in first.cells] == [cell.key for cell in again.cells]
    assert first.digest == again.digest
    assert first.digest != expand("[settings]\nruntime = 5").digest


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ("[sweep]\nnr_requests = 3", "sweep: nr_requests: found 3, expected a list of values"),
        ("[sweep]\nnr_requests = [3, 3]", "sweep: nr_requests: found the same value twice"),
        ("[sweep]\nmode = 'some'", "sweep: mode: found 'some', expected one of 'one', 'all'"),
        ("[sweep]\nmode = 'one'", "sweep: is empty: expected a setting and its values"),
        ("[sweep]\nnr_request = [3]", "sweep.nr_request: no such key"),
        ("[sweep]\niodepth = [0]", "sweep.iodepth: found 0, expected greater than or equal to 1"),
        (
            "[sweep]\niodepth = [3]\n[matrix]\niodepth = [4]",
            "sweep.iodepth: [matrix] varies it as well: remove one of the two",
        ),
        ("[matrix]\nstack = ['raid1']", "matrix.stack[0]: there is no target 'raid1'"),
        (
            "[targets.x]\ndirectory = 'a'\ndevice = '/dev/sda'",
            "targets.x.device: directory is given as well: use one of the two",
        ),
        ("[targets.x]", "targets.x: expected one of directory, filesystem, device"),
        ("[workloads.w]\nrw = 'read'", "workloads.w.size: is missing here and in the target: "
                                       "set one"),
        ("[workloads.w]\nsize = '50%'", "workloads.w.size: found 50%, but the target has no size"),
        ("[workloads.w]\nreplay = 'x'", "workloads.w.replay: "),
        (
            "[workloads.w]\noptions = { filename = '/dev/sda' }",
            "workloads.w.options: filename: no such option, or one that blklab does not pass on "
            "to fio",
        ),
        (
            "[workloads.w]\noptions = { exec_prerun = 'rm' }",
            "workloads.w.options: exec_prerun: no such option, or one that blklab does not pass "
            "on to fio",
        ),
        ("[workloads.w]\noptions = { verify = \"a\\nb=c\" }", "verify: found 'a\\nb=c', "
                                                              "expected printable"),
        ("[targets.x]\ndirectory = \"/tmp\\u0000x\"", "expected a path"),
        ("[targets.x]\ndirectory = ''", "targets.x.directory: found '', expected a path"),
        ("[sweep]\nstack = ['a']", "sweep.stack: not a setting: choose stacks"),
        (
            "[workloads.w]\ncommand = ['ls']\ndirectory = '../x'",
            "workloads.w.directory: found '../x', expected a directory below the target",
        ),
        (
            "[workloads.w]\ncommand = ['ls']\nfigure = 'tps'",
            "workloads.w.figure: found 'tps', expected one group in parentheses, such as 'tps = ([0-9.]+)'",
        ),
        (
            "[workloads.w]\ncommand = ['ls']\nfigure = '('",
            "workloads.w.figure: found '(', expected a regular expression: missing )",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(expand: Expand, more: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(more)
    assert output in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("job", "words", "note"),
    [
        ("numjobs = 4", {"number_ios": "26"}, None),
        ("time_based = true\nruntime = '9s'", {"number_ios": "101", "io_size": str(1 << 62)}, None),
        (
            "ramp_time = '1s'",
            {},
            "settings.max_ios has no effect on workload 'w': fio counts the I/Os of the ramp as well",
        ),
        ("fsync_share = 0.1", {"fsync": "10"}, "flushes at regular distances: each job after every 10 of its writes"),
        ("fsync_share = 1", {"fsync": "1"}, "each job after every 1 of its writes"),
        # Of two rules the mean distance: (1 - 0.9**8) / 0.1 = 5.7 writes.
        ("fsync_share = 0.1\nfsync = 8", {"fsync": "6"}, "each job after every 6 of its writes"),
    ],
)
def test_what_the_simulator_counts_is_counted_by_fio(expand: Expand, job: str, words: Any, note: str | None) -> None:
    table = f"[workloads.w]\nrw = 'write'\nsize = '1m'\n{job}\n[settings]\nmax_ios = 101\n"
    made = expand(table + "[[cells]]\nstack = 'disk'\nworkload = 'w'")
    options = made.cells[0].document["jobs"][0]["options"]
    assert {key: options[key] for key in words} == words
    assert "time_based" not in options
    assert [note in each for each in made.notes] == [True] if note else not made.notes


def test_jobs_that_end_one_by_one_are_not_counted(expand: Expand) -> None:
    job = "{ rw = 'write', size = '1m' }"
    made = expand(
        f"[workloads.w.jobs]\na = {job}\nb = {job}\n[settings]\nmax_ios = 101\n"
        "[[cells]]\nstack = 'disk'\nworkload = 'w'"
    )
    assert all("number_ios" not in job["options"] for job in made.cells[0].document["jobs"])
    assert made.notes == ["settings.max_ios has no effect on workload 'w': fio counts the I/Os of each job alone"]


@pytest.mark.parametrize(
    ("release", "labels", "note"),
    [
        ("6.1.0-49-amd64", ["6.1"], "cells of kernel 4.19 are skipped: this host runs 6.1.0-49-amd64"),
        (
            "6.12.1",
            [],
            "cells of kernel 4.19, 6.1 are skipped: this host runs 6.12.1, and each cell is measured on it once",
        ),
    ],
)
def test_a_host_has_one_kernel(
    expand: Expand, monkeypatch: pytest.MonkeyPatch, release: str, labels: list[str], note: str
) -> None:
    monkeypatch.setattr("platform.release", lambda: release)
    made = expand("[matrix]\nkernel = ['4.19', '6.1']\n")
    assert made.notes == [note]
    assert list(dict.fromkeys(cell.labels["kernel"] for cell in made.cells if "kernel" in cell.labels)) == labels
    assert len(made.cells) == len(expand().cells)
    more = "[matrix]\nkernel = ['4.19', '6.1']\n[fleet]\nhosts = ['web1']\n"
    own = 'destroy = ["wwn-0x5000"]\n\n[targets.disk]\ndirectory = "scratch"'
    fleet = expand(more, old=own, new='[targets.disk]\ndirectory = "/srv"', form=host_cell.FLEET_FORM)
    assert fleet.notes == [], "its hosts may run any kernel"
    assert not any("kernel" in cell.labels for cell in fleet.cells)


def test_a_name_to_destroy_is_a_name(expand: Expand) -> None:
    with pytest.raises(
        UsageError,
        match=r"destroy\[0\]: found '', expected the stable name of "
        r"a device",
    ):
        expand(old='destroy = ["wwn-0x5000"]', new='destroy = [""]')


def test_each_runner_says_what_it_needs(expand: Expand) -> None:
    with pytest.raises(
        UsageError, match=r"stacks: is missing: only --on host runs this file, on its \[targets\]; the simul"
    ):
        expand(form=sim_cell.FORM)
    with pytest.raises(UsageError, match="targets: is missing: add --target /srv, with the"):
        expand(old='[targets.disk]\ndirectory = "scratch"', new="")


def test_a_sweep_of_what_is_not_simulated(expand: Expand) -> None:
    models = "[devices.d]\nmodel = 'sm883'\n[stacks.disk]\ndevice = 'd'\n"
    with pytest.raises(UsageError, match="nomerges: is not simulated: use --on lab or --on host"):
        expand(models + "[sweep]\nnomerges = [2]", form=sim_cell.FORM)
    made = expand(models + "[sweep]\nnr_requests = [32]\nread_ahead_kb = [0]", form=sim_cell.FORM)
    assert any("sweep.read_ahead_kb cannot act on any workload (direct I/O)" in note for note in made.notes)
    cells = made.cells
    # Read-ahead changes nothing in a simulation: it is no cell.
    assert [cell.labels["nr_requests"] for cell in cells] == ["as is", "32"]
    assert [cell.document["devices"][0]["queue"]["nr_requests"] for cell in cells] == [64, 32]


@pytest.mark.parametrize(
    ("options", "setting", "why"),
    [
        ("", "read_ahead_kb", "direct I/O"),
        ("direct = true\nioengine = 'mmap'", "read_ahead_kb", ""),
        ("direct = false\nioengine = 'psync'", "read_ahead_kb", ""),
        ("direct = false\nrw = 'write'", "read_ahead_kb", "no reads"),
        ("direct = false\nrw = 'randrw'", "read_ahead_kb", ""),
        ("direct = false", "vm.dirty_ratio", "no writes"),
        ("rw = 'write'", "vm.dirty_bytes", "direct I/O"),
        ("rw = 'write'\ndirect = false", "vm.dirty_bytes", ""),
        ("", "vm.swappiness", ""),
        ("", "scheduler", ""),
    ],
)
def test_a_setting_that_cannot_act(expand: Expand, options: str, setting: str, why: str) -> None:
    rw = "" if "rw =" in options else 'rw = "randread"\n'
    value = "'none'" if setting == "scheduler" else "4"
    notes = expand(old='rw = "randread"', new=f"{rw}{options}", more=f"[sweep]\n'{setting}' = [{value}]").notes
    assert [f"({why})" in note and f"sweep.{setting} cannot act on any workload" in note for note in notes] == (
        [True] if why else []
    )


def test_a_setting_that_acts_on_one_workload_is_not_doubted(expand: Expand) -> None:
    buffered = "[workloads.buffered]\nrw = 'read'\ndirect = false\nsize = '64MiB'\n[sweep]\nread_ahead_kb = [0]"
    assert expand(buffered).notes == []
    assert expand("[workloads.grep]\ncommand = ['true']\n[sweep]\nread_ahead_kb = [0]").notes == []
