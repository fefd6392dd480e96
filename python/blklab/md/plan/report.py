"""Prints the answer about a change of an array, in the terminal and as JSON: the answer first, then its reasons."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from blklab.md.model import Software
from blklab.md.plan.change import ChangePlan, DurationEstimate, Refusal
from blklab.render.console import Console, style_text
from blklab.text.printing import printable
from blklab.units import format_duration

FORMAT_VERSION = 1


def show(console: Console, plan: ChangePlan) -> None:
    """Prints a plan: the answer, the reasons, the commands, what a power cut means, what is not certain."""
    console.print(style_text(printable(describe_answer(plan)), "bold"))
    console.print(style_text(f"    {printable(plan.call)}"))
    for number, refusal in enumerate(plan.refusals):
        _show_refusal(console, refusal, is_first=number == 0)
    _show_list(console, "Danger", plan.dangers, "red")
    if not plan.refusals:
        for fact in (*plan.facts, *describe_speed(plan)):
            console.print(style_text(f"• {printable(fact)}"))
    _show_commands(console, "What to do", plan.commands)
    _show_commands(console, "After a power cut", plan.interruption)
    _show_list(console, "What is not certain", plan.caveats, "")


def describe_answer(plan: ChangePlan) -> str:
    """Returns the first line: whether it is accepted, by which versions, and how long it takes."""
    versions = describe_versions(plan.conditions.software)
    if plan.refusals:
        return f"No: {versions} refuse it: {plan.refusals[0].reason}."
    if plan.no_effect:
        return f"No use: {versions} accept it, but {plan.no_effect}."
    duration = "; md has nothing to copy"
    if plan.estimate is not None:
        duration = f"; {describe_duration(plan.estimate)}"
    elif plan.work or not plan.is_work_known:
        duration = "; how long it takes is not known"
    danger = ", but it can lose data" if plan.dangers else ""
    return f"Yes: {versions} accept it{danger}{duration}."


def describe_versions(software: Software | None) -> str:
    """Returns the names of mdadm and the kernel, with their versions as far as they are known."""
    mdadm = "mdadm"
    kernel = "Linux"
    if software is not None and software.mdadm:
        mdadm += f" {software.mdadm[0]}.{software.mdadm[1]}"
    if software is not None and software.kernel:
        kernel += f" {software.kernel[0]}.{software.kernel[1]}"
    return f"{mdadm} and {kernel}"


def describe_duration(estimate: DurationEstimate) -> str:
    """Returns how long it takes, with the interval; the lower bound only if the disks are not known."""
    if estimate.likely is None or estimate.slowest is None:
        return f"at least {_format_seconds(estimate.fastest)}"
    bounds = f"{_format_seconds(estimate.fastest)} to {_format_seconds(estimate.slowest)}"
    return f"about {_format_seconds(estimate.likely)} ({bounds})"


def describe_speed(plan: ChangePlan) -> list[str]:
    """Returns what the duration is from, and how long it takes next to other I/O."""
    estimate = plan.estimate
    if estimate is None:
        return []
    lines = [f"Duration: {'; '.join(estimate.basis)}"]
    if not plan.conditions.load and estimate.at_minimum > 1.2 * (estimate.likely or estimate.fastest):
        slow = _format_seconds(estimate.at_minimum)
        lines.append(f"With other I/O all the time, md slows down to sync_speed_min: up to {slow}")
    return lines


def as_dict(plan: ChangePlan) -> dict[str, Any]:
    """Returns the document for JSON. Sectors are of 512 bytes, durations seconds, limits KiB/s."""
    estimate = plan.estimate
    return {
        "format_version": FORMAT_VERSION,
        "array": plan.array.name,
        "uuid": plan.array.uuid or None,
        "operation": plan.operation,
        "call": plan.call,
        "accepted": plan.is_accepted,
        "answer": describe_answer(plan),
        "refusals": [asdict(refusal) for refusal in plan.refusals],
        "dangers": list(plan.dangers),
        "no_effect": plan.no_effect or None,
        "facts": list(plan.facts),
        "work": [asdict(work) for work in plan.work],
        "duration": asdict(estimate) if estimate else None,
        "limits": asdict(plan.conditions.limits),
        "commands": list(plan.commands),
        "interruption": list(plan.interruption),
        "caveats": list(plan.caveats),
    }


def _show_refusal(console: Console, refusal: Refusal, *, is_first: bool) -> None:
    """Prints a refusal; the reason of the first one is in the answer."""
    if not is_first:
        console.print(style_text(f"• Also: {printable(refusal.reason)} [{refusal.code}]"))
    if refusal.printed:
        console.print(style_text(f"• It prints: {printable(refusal.printed)}"))
    for line in refusal.remedy:
        _show_line(console, line)


def _show_list(console: Console, title: str, lines: Sequence[str], style: str) -> None:
    if not lines:
        return
    console.print()
    console.print(style_text(title, "bold"))
    for line in lines:
        console.print(style_text(f"• {printable(line)}", style))


def _show_commands(console: Console, title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    console.print()
    console.print(style_text(title, "bold"))
    for line in lines:
        _show_line(console, line)


def _show_line(console: Console, line: str) -> None:
    """Prints a command, or a comment as a sentence."""
    if line.startswith("#"):
        console.print(style_text(f"• {printable(line.removeprefix('#').strip())}"))
    else:
        console.print(style_text(f"    {printable(line)}", "green"))


def _format_seconds(seconds: float) -> str:
    return format_duration(seconds * 1e9)
