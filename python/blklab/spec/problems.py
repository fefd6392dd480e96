"""Errors of an experiment file, on one line: file, key, what was found and expected."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.spec.fields import shown
from blklab.spec.known_options import ALIASES
from blklab.spec.stack import KeyedError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST = 5  # Most problems in one message
MOST_NAMES = 60  # Most names that a message lists: more than any table has keys


Known = Mapping[tuple[str, ...], Sequence[str]]
"""Keys of each kind of table, by the end of its path (`blklab.spec.schema`)."""


WANTED = {  # Our words for pydantic's longer ones
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


def fail(path: str, message: str) -> SpecProblems:
    """Returns one problem as an exception."""
    return SpecProblems([SpecProblem(path, message)])


def usage_error(file: str, problems: Iterable[SpecProblem]) -> UsageError:
    """Returns a UsageError that names the first problems on one line."""
    lines = _merged(dict.fromkeys(problems))
    more = f"; and {len(lines) - MOST} more" if len(lines) > MOST else ""
    return UsageError(f"{file}: {'; '.join(lines[:MOST])}{more}".replace("\n", " "))


def _merged(problems: Iterable[SpecProblem]) -> list[str]:
    """Returns a line for each mistake: a key that several tables or cells share causes one."""
    mistakes = by_key(((each.path.rpartition(".")[2], each.message), each.path) for each in problems)
    lines: dict[str, str] = {}
    for (_, message), (path, *others) in mistakes.items():
        also = ""
        if len(others) == 1:
            also = f" (also {others[0]})"
        elif others:
            also = f" (also {others[0]} and {len(others) - 1} more)"
        lines.setdefault(path, f"{SpecProblem(path, message)}{also}")
    return list(lines.values())


def near(word: str, allowed: Iterable[str]) -> str:
    """Returns `did you mean 'chunk'?`, or what is allowed if no word is similar."""
    known = list(allowed)
    matches = difflib.get_close_matches(word, known, n=1, cutoff=0.5 if len(word) <= 3 else 0.6)
    return f"did you mean {matches[0]!r}?" if matches else f"allowed: {listing(known) or 'nothing'}"


def listing(names: Sequence[str]) -> str:
    """Returns the names for a message; of very many the first, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def translated(error: "ValidationError", known: Known) -> list[SpecProblem]:
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
        problems_found.append(SpecProblem(".".join(filter(None, names)), _message(detail, known)))
    return problems_found


def _message(detail: "ErrorDetails", known: Known) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    value = detail["input"]
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "extra_forbidden":
            table = tuple(str(part) for part in detail["loc"][:-1])
            key = str(detail["loc"][-1])
            allowed = _known(table, known)
            if ALIASES.get(key, "") in allowed:
                return f"no such key; use {ALIASES[key]!r}"
            return f"no such key; {near(key, allowed)}"
        case "missing":
            return "is missing"
        case "literal_error" | "enum":
            expected = str(context["expected"]).replace(" or ", ", ").replace("True", "true").replace("False", "false")
            return f"found {shown(value)}, expected {expected}"
        case "union_tag_invalid":
            return f"unknown kind {context['tag']!r}: expected one of {context['expected_tags']}"
        case "union_tag_not_found":
            return "found neither model, calibrated nor kind: set one of them"
        case "too_short":
            return "is empty: expected at least one"
    wanted = WANTED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"found {shown(value)}, expected {wanted}"


def _known(table: tuple[str, ...], known: Known) -> Sequence[str]:
    for end, keys in known.items():
        if len(end) <= len(table) and all(
            pattern in {"*", part} for pattern, part in zip(end[::-1], table[::-1], strict=False)
        ):
            return keys
    return ()
