"""Targets named on the command line."""

from pathlib import Path
from typing import Any

import pytest

from blklab.errors import UsageError
from blklab.experiment.load import ExperimentSource, add_targets


def source(**raw: Any) -> ExperimentSource:
    return ExperimentSource(Path("/srv/x.toml"), raw)


def test_a_path_is_for_the_only_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = add_targets(source(stacks={"raid1": {}}), ["."])
    assert result.raw["targets"] == {"raid1": {"directory": str(tmp_path)}}
    assert add_targets(source(), [str(tmp_path)]).raw["targets"] == {"here": {"directory": str(tmp_path)}}


def test_named_ones_replace_the_files_and_keep_its_sizes() -> None:
    targets = {"a": {"filesystem": "/mnt", "size": "1GiB", "cache": "1MiB"}, "b": {"directory": "/b"}}
    result = add_targets(source(targets=targets), ["a=/srv", "c=/x=y"])
    assert result.raw["targets"] == {
        "a": {"size": "1GiB", "cache": "1MiB", "directory": "/srv"},
        "b": {"directory": "/b"},
        "c": {"directory": "/x=y"},
    }


def test_a_path_with_an_equals_sign_is_a_path() -> None:
    assert add_targets(source(), ["/a=b"]).raw["targets"] == {"here": {"directory": "/a=b"}}


def test_what_is_not_clear() -> None:
    with pytest.raises(UsageError, match="choose one of a, b, and write STACK=/srv"):
        add_targets(source(stacks={"a": {}, "b": {}}), ["/srv"])
    with pytest.raises(UsageError, match="expected STACK=PATH"):
        add_targets(source(), ["a="])


def test_without_any_the_experiment_is_as_it_was() -> None:
    item = source(targets={"a": {"directory": "/b"}})
    assert add_targets(item, []) is item
