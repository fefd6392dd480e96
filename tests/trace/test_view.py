from msgspec.structs import replace

from blklab.documents import profile
from blklab.render.table import TableColumn, TextTable, drop_empty_columns
from blklab.trace.tables import devices, life, load, trace
from blklab.trace.view import ProfileView


def labels(view: ProfileView) -> list[list[str]]:
    return [[device.label for device in layer] for layer in view.layers()]


def test_a_stack_is_read_from_its_remaps(pgbench: ProfileView) -> None:
    assert labels(pgbench) == [["dm-0", "dm-1"], ["md127"], ["vdc", "vdd"]]
    assert pgbench.focus.label == "md127"
    assert devices.stack(pgbench) == "stack: dm-0, dm-1 → md127 → vdc, vdd"
    directions = {(feed.upper, feed.lower) for feed in pgbench.feeds}
    assert directions == {("253,0", "9,127"), ("253,1", "9,127"), ("9,127", "254,32"), ("9,127", "254,48")}


def test_devices_in_a_circle_end(pgbench: ProfileView) -> None:
    first = pgbench.profile.devices[0]
    circle = []
    for number, source in (("8,0", "8,16"), ("8,16", "8,0")):
        load = replace(first.load, sources=[replace(first.load.sources[0], name=source)])
        circle.append(replace(first, device=number, name=None, load=load))
    assert labels(ProfileView(replace(pgbench.profile, devices=circle))) == [["8,0"], ["8,16"]]


def test_devices_of_one_name_are_told_apart(pgbench: ProfileView) -> None:
    twins = [replace(device, name="disk") for device in pgbench.profile.devices[:2]]
    view = ProfileView(replace(pgbench.profile, devices=twins))
    assert [device.label for device in view.devices] == ["disk (253,0)", "disk (9,127)"]


def test_names_are_harmless_in_a_terminal(pgbench: ProfileView) -> None:
    first = pgbench.profile.devices[0]
    process = replace(first.load.processes[0], name="b\x1b]0;x\a")
    first = replace(first, name="a\x1b[31m\u202e", load=replace(first.load, processes=[process]))
    view = ProfileView(replace(pgbench.profile, devices=[first], focus=first.device))
    assert view.focus.label == "a\\x1b[31m\\u202e"
    assert load.groups(view.focus, "processes").rows[0][0] == "b\\x1b]0;x\\x07"


def test_counts_equal_blkparses_summary(pgbench: ProfileView) -> None:
    table = trace.counts(pgbench)
    rows = {(row[0], row[1]): row for row in table.rows}
    headings = [column.heading for column in table.columns]
    total = table.rows[2]  # dm-0: CPU 0, CPU 1, total
    assert rows["dm-0", "CPU 0"][headings.index("reads queued")] == "1,339, 11,052 KiB"
    assert total[headings.index("reads queued")] == "2,910, 25,672 KiB"
    assert total[headings.index("writes completed")] == "1,965, 16,264 KiB"


def test_stages_name_what_is_absent(pgbench: ProfileView, scsi: ProfileView) -> None:
    assert "bio-based" in life.stages(pgbench.focus).note
    assert "bio-based" not in life.stages(scsi.focus).note
    assert {row[1] for row in life.stages(scsi.focus).rows} >= {"Q2C", "Q2D", "D2C", "M2D"}
    assert life.errors(scsi.focus).rows[0][:3] == ["read", "ENODATA (61)", "6"]
    assert not life.errors(pgbench.focus)


def test_empty_columns_go() -> None:
    columns = [TableColumn("name", numeric=False), TableColumn("a"), TableColumn("b")]
    table = drop_empty_columns(TextTable("t", columns, [["x", "0", "1"], ["y", "–", "0"]]))
    assert [column.heading for column in table.columns] == ["name", "b"]
    assert table.rows == [["x", "1"], ["y", "0"]]


def test_a_single_hidden_device_is_shown_and_the_one_in_focus_always_is(pgbench: ProfileView) -> None:
    assert len(devices.overview(pgbench).rows) == 5
    assert len(devices.overview(pgbench, 4).rows) == 5
    for limit in (1, 2, 3):
        table = devices.overview(pgbench, limit)
        assert len(table.rows) == limit
        assert any(pgbench.focus.label in row[0] for row in table.rows)
        assert table.note.startswith(f"and {5 - limit} others")


def test_doubts_and_notes(pgbench: ProfileView) -> None:
    assert all(item.severity == "note" for item in trace.diagnose(pgbench))
    assert "dm-0: 1 I/O in flight when the trace ended" in map(str, trace.diagnose(pgbench))
    warning = profile.Warning(path="x\x1b", message="cut off")
    result = replace(pgbench.trace, dropped=7, sequence_gaps=1, out_of_order=2, warnings=[warning])
    output = " ".join(map(str, trace.diagnose(ProfileView(replace(pgbench.profile, trace=result)))))
    assert "x\\x1b: cut off" in output
    assert "dropped 7 events" in output
    assert "1 event missing by sequence number" in output
    assert "2 events out of order" in output
