"""Runs what blklab prints for generated arrays, and compares all data that could be read before.

    recipes FIRST LAST DISK…     arrays of these seeds, on these empty disks; prints one JSON document
    recipes control DISK…        commands that lose data, which the comparison must find

Of everything that `md audit` and `md fix bbl --plan` print for an array, that with the rarest command is typed.
"""

import contextlib
import io
import json
import random
import re
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from blklab.md import recipes

executed: Counter[str] = Counter()  # Names of commands
printed: dict[str, str] = {}  # Names of commands by line
followed: Counter[str] = Counter()  # Names of recipes
_command = recipes.command


def recorded(name: str, /, **words: Any) -> str:
    line = _command(name, **words)
    printed[line] = name
    return line


recipes.command = recorded  # before other modules import it

from inside.arrays import (  # type: ignore[import-not-found]  # noqa: E402
    ARRAY,
    FILE,
    NODE,
    PAGE,
    SHELL,
    Case,
    clean,
    content,
    create,
    generate,
    pages,
    pattern,
    persist,
    put,
    retried,
    run,
    size_of_array,
    value,
    wait_idle,
)  # fmt: skip

from blklab.cli import main  # noqa: E402
from blklab.md.audit import redundancy  # noqa: E402

redundancy.BITMAP_ADVISED_ABOVE = 0
FIRST: dict[str, tuple[str, ...]] = {
    "broken": ("broken",),
    "check": ("under-way",),
    "empty": ("bbl-empty",),
    "inactive": ("inactive",),
    "mounted": ("filesystem-stripe", "offline", "rewrite"),
    "old-superblocks": ("checksum", "two-superblocks"),
    "read-only": ("state", "installer"),
    "repair": ("repair-corrupts",),
    "suspended": ("writes-suspended",),
    "unfinished": ("unfinished", "degraded"),
    "unfinished-inactive": ("unfinished",),
}
"""Recipes that are followed in a condition: other commands would wait for ever, or show nothing of it."""

CASE_TIMEOUT_S = 300  # A case that waits for ever is a problem


def blklab(*words: str) -> tuple[int, str]:
    """Runs blklab in this process, because its start takes seconds here."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as end:
            status = int(end.code or 0)
    return status, out.getvalue() + (err.getvalue() if status else "")


def sequences(case: Case) -> list[tuple[str, list[str]]]:
    """Returns everything that blklab prints for an array: names, and lines to type."""
    choices: list[tuple[str, list[str]]] = []
    if not NODE.exists():
        return [("unfinished", [recorded("resume")])]
    status, text = blklab("md", "audit", "--json")
    if status not in {0, 1}:
        case.problems.append(f"md audit: {text}")
        return []
    for finding in json.loads(text)["findings"]:
        if finding["remedy"]:
            choices.append((finding["code"], finding["remedy"]))
    status, text = blklab("md", "fix", "bbl", ARRAY, "--plan", "--json")
    if text.startswith("{"):
        plan = json.loads(text[: text.rindex("}") + 1])
        choices += [(diagnostic["code"], diagnostic["remedy"]) for diagnostic in plan["diagnostics"]]
        choices += [(recipe["recipe"], recipe["lines"]) for recipe in plan["recipes"]]
    elif "an earlier repair is not finished" in text:
        choices.append(("unfinished", ["blklab md fix --resume"]))
    else:
        case.problems.append(f"md fix bbl --plan: {text}")
    if value("array_state") not in {"inactive", "broken", ""} and not case.removed:
        for recipe in ("offline", "installer"):
            _, text = blklab("md", "fix", "bbl", ARRAY, "--recipe", recipe)
            choices.append((recipe, text.splitlines()))
    return [(name, lines) for name, lines in choices if any(line[:1] != "#" for line in lines)]


def name_of(line: str) -> str:
    """Returns the name of a printed command, which a comment may follow; empty if blklab.md.recipes did not make it."""
    return printed.get(line) or next((printed[known] for known in printed if line.startswith(known + " ")), "")


def next_commands(text: str) -> list[str]:
    """Returns what a repair that failed tells the user to type: the next command, or all those above."""
    following = re.search(r"next command: (.*?)( +\(then the other commands above\))?$", text, re.M)
    if not following:
        return []
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ") and line.strip()[:1] != "#"]
    return indented[indented.index(following[1]) :] if following[2] else [following[1]]


QUIET = {"wait"}  # mdadm --wait has status 1 if there was nothing to wait for


def follow(case: Case, lines: list[str], depth: int = 0) -> list[str]:
    """Types lines as a user does. Returns what ran."""
    ran = []
    for line in lines:
        if line.startswith("#"):
            continue
        name = name_of(line)
        if not name:
            case.problems.append(f"no command of blklab.md.recipes: {line}")
            continue
        typed = line.replace(recipes.NEW_DISK, case.spare_disks[0] if case.spare_disks else "/dev/none")
        typed = typed.replace(recipes.OLD_DISK, case.removed[0] if case.removed else "/dev/none")
        if typed.startswith("blklab "):
            words = typed.split()[1:]
            status, text = blklab(*words, *(["--yes"] if name in {"fix", "fix-entries"} else []))
            ran.append(typed)
            executed.update(printed[step.strip()] for step in text.splitlines() if step.strip() in printed)
            if depth < 2 and name == "resume" and status:  # what it prints at its end is followed, too
                ran += follow(case, next_commands(text), depth + 1)
            executed[name] += 1
            continue
        status, text = retried(typed)
        if status and name not in QUIET:  # it changed nothing: md refuses a re-add without a bitmap
            case.refused.append(f"status {status}: {typed}: {text.strip()[-300:]}")
        else:
            executed[name] += 1
        ran.append(typed)
    return ran


def compare(case: Case, before: list[bytes | None]) -> int:
    """Compares all that could be read before. Returns the bytes."""
    wait_idle()
    if value("array_state") in {"", "inactive", "clear"}:
        run("mdadm", "--stop", ARRAY, check=False)
        run("mdadm", "--assemble", "--run", ARRAY, *case.members, check=False)
        wait_idle()
    if size_of_array() != case.size:
        case.problems.append(f"the array does not run: {Path('/proc/mdstat').read_text()}")
        return 0
    if case.condition == "mounted":
        run("mount", ARRAY, "/mnt/a", check=False)
        if Path("/mnt/a/file").read_bytes() != FILE:
            case.problems.append("the file has other data")
        return len(FILE)
    after = pages(ARRAY, size_of_array())
    lost = [at for at, page in enumerate(before) if page is not None and after[at] is None]
    wrong = [at for at, page in enumerate(before) if page is not None and after[at] not in {None, page}]
    if lost:
        case.problems.append(f"{len(lost)} pages cannot be read any more: {lost[:5]}")
    if wrong:
        case.problems.append(f"{len(wrong)} pages have other data: {wrong[:5]}")
    compared: int = PAGE * sum(page is not None for page in before)
    return compared


def listed() -> int:
    return sum(len(path.read_text().split("\n")) - 1 for path in NODE.glob("dev-*/bad_blocks"))


def check_effect(case: Case, name: str, before: list[bytes | None]) -> None:
    """Whether the commands did what their explanation promises."""
    if name in {"rewrite", "bbl-entries"} and None not in before and listed():
        case.problems.append(f"entries remain: {listed()}")
    if name in {"broken", "unfinished", "repair-unfinished"}:
        if value("array_state") == "broken":
            case.problems.append("still broken")
            return
        with contextlib.suppress(IndexError):
            page = before[3]
            try:
                put(ARRAY, 3 * PAGE, page or pattern(case.seed, 3))
            except OSError as error:
                case.problems.append(f"cannot write: {error}")
    if name in {"replace", "swap", "rebuild"} and value("degraded") != "0":
        case.problems.append("degraded")


def checked_content(case: Case) -> list[bytes | None]:
    before: list[bytes | None] = content()
    if case.condition != "mounted":
        wrong = [at for at, page in enumerate(before) if page not in {None, pattern(case.seed, at)}]
        if wrong:
            case.problems.append(f"before any command, {len(wrong)} pages have other data")
    return before


def rarity(choice: tuple[str, list[str]]) -> tuple[int, int, int]:
    """Returns what sorts choices: new recipes and commands first, then the rarest command."""
    name, lines = choice
    rarest = min(executed[name_of(line)] for line in lines if line[:1] != "#")
    return min(rarest, followed[name], 1), rarest, followed[name]


def judge(seed: int, disks: list[str]) -> dict[str, Any]:
    try:
        case = generate(seed, disks)
    except RuntimeError as error:  # this kernel and this mdadm refuse a command that makes the condition
        clean(None, disks)
        return {"seed": seed, "printed": [], "bytes": 0, "problems": [], "skipped": str(error)}
    state = value("array_state")
    readable = state not in {"inactive", ""}
    # If md gives nothing now, there must be all that was written afterwards.
    before: list[bytes | None] = [pattern(seed, at) for at in range(case.size // PAGE)]
    if readable:
        before = checked_content(case)
    choices = sequences(case)
    result: dict[str, Any] = {
        "seed": seed, "level": case.level, "members": len(case.members), "condition": case.condition,
        "state": state, "printed": [name for name, _ in choices], "entries": listed(),
    }  # fmt: skip
    keep = [line for _, lines in choices for line in lines if line.startswith("# Do NOT stop the array")]
    if choices and not keep:
        first = [choice for choice in choices if choice[0] in FIRST.get(case.condition, ())]
        name, lines = min(first or choices, key=rarity)
        followed[name] += 1
        result |= {"followed": name, "ran": follow(case, lines)}
        wait_idle()
        if not any("more ranges" in line for line in lines):
            check_effect(case, name, before)
        if state == "broken" and value("array_state") != "broken":
            before = [pattern(seed, at) for at in range(case.size // PAGE)]
    result |= {"bytes": compare(case, before), "problems": case.problems, "refused": case.refused}
    clean(case, disks)
    return result


def control(disks: list[str]) -> dict[str, Any]:
    """Commands that an earlier version printed: the comparison must find the loss."""
    case = Case(1, "raid1", disks[:2], [], disks[2:], random.Random(1), "control")
    create(case)
    for at, path in enumerate(case.members):
        node = NODE / f"dev-{path[5:]}"
        sector = int((node / "offset").read_text()) + 1024 * (at + 1)
        (node / "bad_blocks").write_text(f"{sector} 8\n")
        put(path, sector * 512, b"\xee" * PAGE)
    persist(case)
    before = checked_content(case)
    first = case.members[0]
    for line in (f"{ARRAY} --fail {first}", f"{ARRAY} --remove {first}", f"--zero-superblock {first}",
                 f"{ARRAY} --add {first}"):  # fmt: skip
        retried(f"mdadm {line}")
    result = {"bytes": compare(case, before), "problems": case.problems}
    clean(case, disks)
    return result


def timed_out(*_: object) -> None:
    waiting = Path("/proc/mdstat").read_text()
    raise TimeoutError(f"{CASE_TIMEOUT_S} s: {waiting}")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, timed_out)
    Path("/usr/bin/smartctl").write_text(f"#!{SHELL}\nexit 0\n")
    Path("/usr/bin/smartctl").chmod(0o755)
    if sys.argv[1] == "control":
        clean(None, sys.argv[2:])
        sys.stdout.write(json.dumps(control(sys.argv[2:])))
    else:
        first, last, *given = sys.argv[1:]
        clean(None, given)
        cases = []
        for at in range(int(first), int(last)):
            signal.alarm(CASE_TIMEOUT_S)
            try:
                cases.append(judge(at, given))
            except Exception:
                import traceback

                cases.append({"seed": at, "bytes": 0, "problems": [traceback.format_exc()]})
                clean(None, given)
                for name in range(6):
                    run("dmsetup", "remove", f"m{name}", check=False)
            sys.stderr.write(json.dumps(cases[-1]) + "\n")
        sys.stdout.write(json.dumps({"cases": cases, "executed": executed}))
