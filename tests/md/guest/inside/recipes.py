"""Runs what blklab prints for generated arrays, and compares all data that the array or any disk had before.

    recipes FIRST LAST DISK…     arrays of these seeds, on these empty disks; prints one JSON document
    recipes control DISK…        commands that lose data, which the comparison must find

Of everything that `md audit` and `md fix bbl --plan` print for an array, that with the rarest command is typed. While
it is typed there is an accident (`ACCIDENTS` of inside.arrays), so that the lines do not fit any more what there is.
"""

import contextlib
import io
import json
import random
import re
import shlex
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blklab.md import command_lines, recipes

executed: Counter[str] = Counter()  # Names of commands
printed: dict[str, str] = {}  # Names of commands by line
followed: Counter[str] = Counter()  # Names of recipes


def record(command: Callable[..., str]) -> Callable[..., str]:
    """Returns a command that remembers the lines that it returns."""

    def recorded(*words: Any, **named: Any) -> str:
        line = command(*words, **named)
        printed[line] = command.__name__
        return line

    return recorded


for _command in command_lines.COMMANDS:
    setattr(command_lines, _command.__name__, record(_command))

from inside.arrays import (  # type: ignore[import-not-found]  # noqa: E402
    ARRAY,
    FILE,
    HIDDEN,
    NODE,
    PAGE,
    SHELL,
    Case,
    Choice,
    begin_of_data,
    choose,
    clean,
    content,
    create,
    find_held,
    generate,
    hide_error,
    mapped,
    pages,
    pattern,
    persist,
    plug_in,
    put,
    retried,
    run,
    size_of_array,
    some_sector,
    value,
    wait_idle,
)  # fmt: skip

from blklab.cli import main  # noqa: E402
from blklab.md.audit import redundancy  # noqa: E402
from blklab.md.repair import operations  # noqa: E402

redundancy.BITMAP_ADVISED_ABOVE = 0
_run_mdadm = operations.run_mdadm


def counted(*words: str) -> operations.CommandOutput:
    """Runs mdadm for blklab, and counts the command."""
    output = _run_mdadm(*words)
    if not output.status:
        executed[printed.get(shlex.join(["mdadm", *words]), "")] += 1
    return output


operations.run_mdadm = counted
FIRST: dict[str, tuple[str, ...]] = {
    "broken": ("broken",),
    "broken-read": ("broken",),
    "check": ("under-way",),
    "empty": ("bbl-empty",),
    "inactive": ("inactive",),
    "latent-entries": ("replace", "swap", "rebuild", "rewrite", "bbl-entries"),
    "mounted": ("filesystem-stripe", "offline", "rewrite"),
    "not-assembled": ("absent",),
    "old-superblocks": ("checksum", "two-superblocks"),
    "out-latent": ("degraded",),
    "out-latent-no-lists": ("degraded",),
    "read-only": ("state", "installer"),
    "repair": ("repair-corrupts",),
    "slot-entries": ("repair-unfinished", "unfinished"),
    "suspended": ("writes-suspended",),
    "unfinished": ("unfinished", "degraded"),
    "unfinished-inactive": ("unfinished",),
}
"""Recipes that are followed in a condition: other commands would wait for ever, or show nothing of it."""

READING = {"", "append_rule", "audit_arrays", "disable_lists", "examine_bad_blocks", "examine_disk", "examine_version",
           "limit_retries", "make_directory", "plan_fix_bbl", "set_timeout", "show_detail", "show_mismatches",
           "show_signatures", "show_smart"}  # fmt: skip
"""Commands that change nothing on an array; and comments."""

CASE_TIMEOUT_S = 180  # A case that waits for ever is a problem


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
    if any(Path("/var/lib/blklab").glob("md-fix-*")) and not NODE.exists():
        choices.append(("unfinished", [command_lines.resume_fix()]))
    status, text = blklab("md", "audit", "--json")
    if status not in {0, 1}:
        case.problems.append(f"md audit: {text}")
        return []
    for finding in json.loads(text)["findings"]:
        if finding["remedy"] and (finding["array"] in {"md0", "", None} or not NODE.exists()):
            choices.append((finding["code"], finding["remedy"]))
    if not NODE.exists():
        return with_commands(choices)
    status, text = blklab("md", "fix", "bbl", ARRAY, "--plan", "--json")
    if text.startswith("{"):
        plan = json.loads(text[: text.rindex("}") + 1])
        choices += [(diagnostic["code"], diagnostic["remedy"]) for diagnostic in plan["diagnostics"]]
        choices += [(recipe["recipe"], recipe["lines"]) for recipe in plan["recipes"]]
    elif "an earlier repair is not finished" in text:
        choices.append(("unfinished", ["blklab md fix --resume"]))
    else:
        case.problems.append(f"md fix bbl --plan: {text}")
    usable = value("array_state") not in {"inactive", "broken", ""} and not case.removed
    if usable and executed["assemble_without_lists"] < 4:
        for recipe in ("offline", "installer"):
            _, text = blklab("md", "fix", "bbl", ARRAY, "--recipe", recipe)
            choices.append((recipe, text.splitlines()))
    return with_commands(choices)


def with_commands(choices: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Returns those of all choices that have commands."""
    return [(name, lines) for name, lines in choices if any(line[:1] != "#" for line in lines)]


def name_of(line: str) -> str:
    """Returns the name of a printed command, which a comment may follow; empty if command_lines did not make it."""
    return printed.get(line) or next((printed[known] for known in printed if line.startswith(known + " ")), "")


def next_commands(text: str) -> list[str]:
    """Returns what a repair that failed tells the user to type: the next command, or all those above."""
    following = re.search(r"next command: (.*?)( +\(then the other commands above\))?$", text, re.M)
    if not following:
        return []
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ") and line.strip()[:1] != "#"]
    return indented[indented.index(following[1]) :] if following[2] else [following[1]]


QUIET = {"wait_for_sync"}  # mdadm --wait has status 1 if there was nothing to wait for


def fill_in(case: Case, line: str) -> str:
    """Returns a line with names for its placeholders: DISK may be the disk that was removed, or an empty one."""
    empty = case.spare_disks[0] if case.spare_disks else "/dev/none"
    disk = case.removed[0] if case.removed and case.random.random() < 0.7 else empty
    if case.foreign and case.random.random() < 0.1:
        disk = case.random.choice(case.foreign)
    line = re.sub(rf"(?<![\w-]){recipes.NEW_DISK}(?![\w-])", empty, line)
    return re.sub(rf"(?<![\w-]){recipes.DISK}(?![\w-])", disk, line)


def type_line(case: Case, typed: str, name: str, depth: int = 0) -> list[str]:
    """Types a line as a user does. Returns what ran."""
    if typed.startswith("blklab "):
        ask = ["--yes"] if name.startswith("fix") else []
        status, text = blklab(*shlex.split(typed)[1:], *ask)
        executed.update(
            printed[step.strip()]
            for step in text.splitlines()
            if step.strip() in printed and not step.strip().startswith("mdadm")
        )
        executed[name] += 1
        if status > 2 or "Traceback" in text:
            case.problems.append(f"status {status}: {typed}: {text.strip()[-1500:]}")
        elif status:
            case.refused.append(f"status {status}: {typed}: {text.strip()[-300:]}")
        if depth < 2 and name == "resume_fix" and status:  # what it prints at its end is followed, too
            return [typed, *follow(case, next_commands(text), depth + 1)]
        return [typed]
    status, text = retried(typed)
    if status and name not in QUIET:  # it changed nothing: md refuses it
        case.refused.append(f"status {status}: {typed}: {text.strip()[-300:]}")
    else:
        executed[name] += 1
    return [typed]


def follow(case: Case, lines: list[str], depth: int = 0) -> list[str]:
    """Types lines as a user does. Returns what ran."""
    ran = []
    for typed, name in to_type(case, lines):
        ran += type_line(case, typed, name, depth)
    return ran


def to_type(case: Case, lines: list[str]) -> list[tuple[str, str]]:
    """Returns lines with the names of disks, and the names of their commands."""
    result = []
    for line in lines:
        if line.startswith("#"):
            continue
        name = name_of(line)
        if name:
            result.append((fill_in(case, line), name))
        else:
            case.problems.append(f"no command of blklab.md.command_lines: {line}")
    return result


def follow_with_accident(case: Case, lines: list[str]) -> list[str]:
    """Types lines while there is the accident of a case. Returns what ran, and the accident."""
    todo = to_type(case, lines)
    ran: list[str] = []
    match case.accident:
        case "twice":
            todo = [line for line in todo for _ in range(2)]
        case "reverse":
            todo = todo[::-1]
        case "renamed":
            todo = renamed(case, todo)
        case "late":
            for typed, name in todo:
                ran += type_line(case, typed, name)
            wait_idle()
            ran += type_line(case, "blklab md fix --resume", "resume_fix")
            ran.append("# all of it again")
    moment = case.random.randrange(len(todo) + 1) if case.accident in {"latent", "fails"} else -1
    for at, (typed, name) in enumerate(todo):
        if at == moment:
            ran.append(happen(case))
        ran += type_line(case, typed, name)
    if moment == len(todo):
        ran.append(happen(case))
    return ran


def renamed(case: Case, todo: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns lines as they are after a boot that gave all disks each other's names."""
    names = case.all_disks[:]
    case.random.shuffle(names)
    now = dict(zip(case.all_disks, names, strict=True))
    return [(re.sub(r"/dev/[\w-]+", lambda found: now.get(found[0], found[0]), typed), name) for typed, name in todo]


def happen(case: Case) -> str:
    """Has an accident happen between two lines. Returns what it was, for the report."""
    if case.accident == "latent":
        at = case.random.randrange(len(case.members))
        sector = some_sector(case)
        hide_error(case, at, sector)
        what = f"# {case.members[at]} cannot read 16 sectors from data sector {sector} on"
    else:
        present = [path for path in case.members if "in_sync" in value(f"dev-{path[5:]}/state")]
        if not present:
            return "# no member is left to fail"
        path = case.random.choice(present)
        run("mdadm", ARRAY, "--fail", path, check=False)
        retried(f"mdadm {ARRAY} --remove {path}")
        case.removed.append(path)
        what = f"# {path} fails and is removed"
    held = find_held(case)
    case.before = [page if held[at] else None for at, page in enumerate(case.before)]
    return what


def compare(case: Case) -> int:
    """Compares all that the array could read before, or that any disk had. Returns the bytes."""
    plug_in(case)
    wait_idle()
    for path, begin, content_before in case.kept:
        if b"".join(page or b"" for page in pages(path, len(content_before), begin)) != content_before:
            case.problems.append(f"{path} had other data than the array, and does not have them any more")
    if value("array_state") in {"", "inactive", "clear"}:
        run("mdadm", "--stop", ARRAY, check=False)
        run("mdadm", "--assemble", "--run", ARRAY, *case.members, check=False)
        wait_idle()
    if case.condition == "mounted":
        run("mount", ARRAY, "/mnt/a", check=False)
        if Path("/mnt/a/file").read_bytes() != FILE:
            case.problems.append("the file has other data")
        return len(FILE)
    before = case.before
    runs = size_of_array() == case.size
    # If an array does not run, or was not read before, the disks say what is left.
    after = content() if runs else [None] * len(before)
    wrong = [at for at, page in enumerate(before) if page is not None and after[at] not in {None, page}]
    if wrong:
        case.problems.append(f"{len(wrong)} pages have other data: {wrong[:5]}")
    lost = [at for at, page in enumerate(before) if page is not None and after[at] is None]
    if lost and (case.latent or case.accident == "fails" or case.condition in HIDDEN | {"not-assembled"}):
        held = find_held(case)
        lost = [at for at in lost if not held[at]]
    elif lost and not runs:
        case.problems.append(f"the array does not run: {Path('/proc/mdstat').read_text()}")
    if lost:
        case.problems.append(f"{len(lost)} pages cannot be read any more: {lost[:5]}")
    compared: int = PAGE * sum(page is not None for page in before) + sum(len(kept) for _, _, kept in case.kept)
    return compared


def listed() -> int:
    return sum(len(path.read_text().split("\n")) - 1 for path in NODE.glob("dev-*/bad_blocks"))


def check_effect(case: Case, name: str, lines: list[str]) -> None:
    """Whether the commands did what their explanation promises."""
    before = case.before
    done = not case.refused
    if name in {"rewrite", "bbl-entries"} and None not in before and listed():
        case.problems.append(f"entries remain: {listed()}")
    if name in {"broken", "unfinished", "repair-unfinished"} and case.condition != "broken-read":
        if value("array_state") == "broken":
            case.problems.append("still broken")
            return
        with contextlib.suppress(IndexError):
            page = before[3]
            try:
                put(ARRAY, 3 * PAGE, page or pattern(case.seed, 3))
            except OSError as error:
                case.problems.append(f"cannot write: {error}")
    added = any(recipes.NEW_DISK in line or "fix rebuild" in line for line in lines)
    if done and name in {"replace", "swap", "rebuild"} and added and value("degraded") != "0":
        case.problems.append("degraded")


def checked_content(case: Case) -> list[bytes | None]:
    """Returns what the array reads before any command."""
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


TYPED = ("add", "remove", "replace", "rebuild", "restart", "entries")


def own_commands(case: Case) -> tuple[str, list[str]]:
    """Returns commands of blklab that were not printed for the array: they must not lose data either."""
    name = case.random.choice(TYPED)
    old = case.random.choice(case.members)
    add = command_lines.fix_add(ARRAY, recipes.DISK)
    lines = {
        "add": [add],
        "remove": [command_lines.fix_remove(ARRAY, old), add],
        "replace": [command_lines.fix_replace(ARRAY, old, recipes.NEW_DISK)],
        "rebuild": [command_lines.fix_rebuild(ARRAY, case.random.randrange(len(case.members)))],
        "restart": [command_lines.fix_restart(ARRAY), add],
        "entries": [command_lines.fix_entries(ARRAY), command_lines.fix_bbl(ARRAY)],
    }
    return f"typed-{name}", lines[name]


def choose_recipe(case: Case, choices: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    """Returns what is typed. An accident matters only to commands that change something."""
    own = case.condition == "latent" or (case.accident != "none" and case.random.random() < 0.35)
    if NODE.exists() and (own or not choices):
        return own_commands(case)
    first = [choice for choice in choices if choice[0] in FIRST.get(case.condition, ())]
    if case.accident != "none" and not first:
        first = [(name, lines) for name, lines in choices if not {name_of(line) for line in lines} <= READING]
    return min(first or choices, key=rarity)


def judge(seed: int, choice: Choice, disks: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "seed": seed, "shape": choice.shape, "metadata": choice.metadata, "condition": choice.condition,
        "accident": choice.accident, "printed": [], "bytes": 0, "problems": [],
    }  # fmt: skip
    started = time.monotonic()
    try:
        case = generate(seed, disks, choice)
    except RuntimeError as error:  # this kernel and this mdadm refuse a command that makes the condition
        clean(None, disks)
        return result | {"skipped": str(error)}
    state = value("array_state")
    # If md gives nothing now, there must be all that was written afterwards.
    case.before = [pattern(seed, at) for at in range(case.size // PAGE)]
    if case.condition in HIDDEN or case.condition == "not-assembled":
        held = find_held(case)
        case.before = [page if held[at] else None for at, page in enumerate(case.before)]
    elif state not in {"inactive", ""}:
        case.before = checked_content(case)
    choices = sequences(case)
    result |= {
        "level": case.level, "members": len(case.members), "state": state, "printed": [name for name, _ in choices],
        "entries": listed(),
    }  # fmt: skip
    keep = [line for _, lines in choices for line in lines if line.startswith("# Do NOT stop the array")]
    if (choices or NODE.exists()) and not keep:
        name, lines = choose_recipe(case, choices)
        followed[name] += 1
        result |= {"followed": name, "ran": follow_with_accident(case, lines)}
        wait_idle()
        if case.accident in {"none", "twice"} and not any("more ranges" in line for line in lines):
            check_effect(case, name, lines)
        restarted = state == "broken" and value("array_state") != "broken" and case.condition not in HIDDEN
        if restarted and case.accident not in {"latent", "fails"}:
            case.before = [pattern(seed, at) for at in range(case.size // PAGE)]
    result |= {"bytes": compare(case), "problems": case.problems, "refused": case.refused}
    clean(case, disks)
    return result | {"seconds": round(time.monotonic() - started, 1)}


def control(disks: list[str]) -> dict[str, Any]:
    """Commands that earlier versions printed: the comparison must find what each of the two sequences loses."""
    result: dict[str, Any] = {"problems": []}
    # Two lists, and one member rebuilt from the other.
    case = Case(1, "raid1", disks[:2], [], disks[2:], random.Random(1), "control")
    create(case)
    for at, path in enumerate(case.members):
        sector = begin_of_data(path) // 512 + 1024 * (at + 1)
        (NODE / f"dev-{path[5:]}" / "bad_blocks").write_text(f"{sector} 8\n")
        put(path, sector * 512, b"\xee" * PAGE)
    persist(case)
    case.before = checked_content(case)
    type_control(case)
    result["problems"].append(case.problems)
    clean(case, disks)
    # A member rebuilt from one that cannot read its data: a check before it did not tell.
    case = Case(2, "raid1", disks[:2], [], disks[2:], random.Random(1), "control")
    mapped(case)
    create(case)
    case.offsets.update(begin_of_data(path) for path in case.members)
    case.before = checked_content(case)
    hide_error(case, 1, 4096)
    retried(f"mdadm --action=check {ARRAY}")
    wait_idle()
    type_control(case)
    result["problems"].append(case.problems)
    clean(case, disks)
    return result


def type_control(case: Case) -> None:
    first = case.members[0]
    for line in (f"{ARRAY} --fail {first}", f"{ARRAY} --remove {first}", f"--zero-superblock {first}",
                 f"{ARRAY} --add {first}"):  # fmt: skip
        retried(f"mdadm {line}")
    compare(case)


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
        choices = choose(int(last))
        for at in range(int(first), int(last)):
            signal.alarm(CASE_TIMEOUT_S)
            try:
                cases.append(judge(at, choices[at], given))
            except Exception:
                cases.append({
                    "seed": at, **vars(choices[at]), "printed": [], "bytes": 0, "problems": [traceback.format_exc()]
                })  # fmt: skip
                clean(None, given)
            sys.stderr.write(json.dumps(cases[-1]) + "\n")
        sys.stdout.write(json.dumps({"cases": cases, "executed": executed}))
