"""Errors of an experiment file, on one line: file, key, what was found and expected."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blklab.errors import UsageError
from blklab.fio.known_options import ALIASES
from blklab.grouping import by_key
from blklab.toml_files.fields import show_value

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_PROBLEMS = 5  # Most problems in one message
MAX_NAMES = 60  # Most names that a message lists: more than any table has keys


KnownKeys = Mapping[tuple[str, ...], Sequence[str]]
"""Keys of each kind of table, by the end of its path (`blklab.experiment.schema`)."""


EXPECTATIONS = {  # Our words for pydantic's longer ones
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a table"),
    "list_type": "a list",
    "string_type": "text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
}


@dataclass(frozen=True)
class SpecProblem:
    """One error, and its key (`stacks.near.chunk`)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecProblems(Exception):
    """One or more errors; the caller adds the file."""

    def __init__(self, problems: Sequence[SpecProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.found = problems


class KeyedError(ValueError):
    """A table whose keys contradict each other; `key` is the one to report."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def fail(path: str, message: str) -> SpecProblems:
    """Returns one problem as an exception."""
    return SpecProblems([SpecProblem(path, message)])


def usage_error(file: str, problems: Iterable[SpecProblem]) -> UsageError:
    """Returns a UsageError that names the first problems on one line."""
    lines = _merge_lines(dict.fromkeys(problems))
    suffix = f"; and {len(lines) - MAX_PROBLEMS} more" if len(lines) > MAX_PROBLEMS else ""
    return UsageError(f"{file}: {'; '.join(lines[:MAX_PROBLEMS])}{suffix}".replace("\n", " "))


def _merge_lines(problems: Iterable[SpecProblem]) -> list[str]:
    """Returns a line for each mistake: a key that several tables or cells share causes one."""
    mistakes = by_key(((problem.path.rpartition(".")[2], problem.message), problem.path) for problem in problems)
    lines: dict[str, str] = {}
    for (_, message), (path, *other_paths) in mistakes.items():
        also = ""
        if len(other_paths) == 1:
            also = f" (also {other_paths[0]})"
        elif other_paths:
            also = f" (also {other_paths[0]} and {len(other_paths) - 1} more)"
        lines.setdefault(path, f"{SpecProblem(path, message)}{also}")
    return list(lines.values())


def near(word: str, allowed_names: Iterable[str]) -> str:
    """Returns `did you mean 'chunk'?`, or what is allowed if no word is similar."""
    names = list(allowed_names)
    matches = difflib.get_close_matches(word, names, n=1, cutoff=0.5 if len(word) <= 3 else 0.6)
    return f"did you mean {matches[0]!r}?" if matches else f"allowed: {listing(names) or 'nothing'}"


def listing(names: Sequence[str]) -> str:
    """Returns the names for a message; of very many the first, and how many more there are."""
    hidden_count = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {hidden_count} more" if hidden_count > 0 else "")


def translate_errors(error: "ValidationError", known_keys: KnownKeys) -> list[SpecProblem]:
    """Converts pydantic's errors to our messages."""
    problems_found = []
    for detail in error.errors(include_url=False):
        names: list[str] = []
        for part in detail["loc"]:
            if isinstance(part, int) and names:
                names[-1] += f"[{part}]"
            elif not (isinstance(part, str) and part.startswith("<") and part.endswith(">")):  # pydantic's tag
                names.append(str(part))
        context = detail.get("ctx", {}).get("error")
        if isinstance(context, KeyedError):
            names.append(context.key)
        problems_found.append(SpecProblem(".".join(filter(None, names)), _message(detail, known_keys)))
    return problems_found


def _message(detail: "ErrorDetails", known_keys: KnownKeys) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    value = detail["input"]
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "extra_forbidden":
            table = tuple(str(part) for part in detail["loc"][:-1])
            key = str(detail["loc"][-1])
            allowed_keys = _keys_of_table(table, known_keys)
            if ALIASES.get(key, "") in allowed_keys:
                return f"no such key; use {ALIASES[key]!r}"
            return f"no such key; {near(key, allowed_keys)}"
        case "missing":
            return "is missing"
        case "literal_error" | "enum":
            expected_values = (
                str(context["expected"]).replace(" or ", ", ").replace("True", "true").replace("False", "false")
            )
            return f"found {show_value(value)}, expected {expected_values}"
        case "union_tag_invalid":
            return f"unknown kind {context['tag']!r}: expected one of {context['expected_tags']}"
        case "union_tag_not_found":
            return "found neither model, calibrated nor kind: set one of them"
        case "too_short":
            return "is empty: expected at least one"
    expectation = EXPECTATIONS.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"found {show_value(value)}, expected {expectation}"


def _keys_of_table(table: tuple[str, ...], known_keys: KnownKeys) -> Sequence[str]:
    for end, keys in known_keys.items():
        if len(end) <= len(table) and all(
            pattern in {"*", part} for pattern, part in zip(end[::-1], table[::-1], strict=False)
        ):
            return keys
    return ()
