"""Settings that are changed for a cell, and put back."""

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.stacks.build import change_setting
from tests.runners.lab.stacks.recording import Recorder, guest

QUEUE = "/sys/block/vda/queue"
VM = "/proc/sys/vm"


class Strict(Recorder):
    """Refuses to write what is in `refused`, as (path, text)."""

    refused: frozenset[tuple[str, str]] = frozenset()

    def write(self, path: str, text: str) -> None:
        """Records a write, if it is taken."""
        if (path, text) in self.refused:
            raise BlklabError(f"{path}: Invalid argument")
        super().write(path, text)


def test_it_is_put_back() -> None:
    recorder = Recorder({f"{QUEUE}/scheduler": "[none] mq-deadline\n", f"{QUEUE}/nr_requests": "64\n"})
    item = guest(recorder)
    change_setting(item, f"{QUEUE}/scheduler", "none")
    change_setting(item, f"{QUEUE}/nr_requests", "64")
    assert recorder.wrote == [], "it is so already"
    change_setting(item, f"{QUEUE}/scheduler", "mq-deadline")
    change_setting(item, f"{QUEUE}/nr_requests", "32")
    assert item.undo() == []
    assert recorder.wrote[2:] == [(f"{QUEUE}/nr_requests", "64"), (f"{QUEUE}/scheduler", "none")]
    with pytest.raises(BlklabError, match="queue/wbt: the guest's kernel has no such setting"):
        change_setting(item, f"{QUEUE}/wbt", "1")


@pytest.mark.parametrize("name", ["dirty", "dirty_background"])
def test_a_limit_in_bytes_is_unset_by_the_ratio(name: str) -> None:
    recorder = Recorder({f"{VM}/{name}_ratio": "20\n", f"{VM}/{name}_bytes": "0\n"})
    item = guest(recorder)
    change_setting(item, f"{VM}/{name}_bytes", "1048576")
    recorder.files[f"{VM}/{name}_ratio"] = "0"
    assert item.undo() == []
    assert recorder.wrote[1:] == [(f"{VM}/{name}_ratio", "20")]
    recorder.wrote.clear()
    change_setting(item, f"{VM}/{name}_ratio", "10")
    assert item.undo() == []
    assert recorder.wrote[1:] == [(f"{VM}/{name}_ratio", "20")]


def test_what_stays_changed_is_said_unless_it_is_gone() -> None:
    recorder = Strict({f"{QUEUE}/nr_requests": "64\n", "/sys/block/md0/md/x": "1 (system)\n"})
    recorder.refused = frozenset({(f"{QUEUE}/nr_requests", "64"), ("/sys/block/md0/md/x", "1 (system)")})
    item = guest(recorder)
    item.undoing.append(lambda: recorder.files.pop("/sys/block/md0/md/x"))
    change_setting(item, f"{QUEUE}/nr_requests", "32")
    change_setting(item, "/sys/block/md0/md/x", "2")
    assert item.undo() == [f"{QUEUE}/nr_requests: not restored: found 32, expected 64"]
