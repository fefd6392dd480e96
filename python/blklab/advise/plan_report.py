"""A plan in the terminal, as a page and as JSON."""

from blklab.advise import report, summary
from blklab.advise.plan import Plan
from blklab.advise.report_figures import HOW_TO_RUN
from blklab.render import shell, terminal
from blklab.render.console import Console
from blklab.render.shell import PageSection, PlainText
from blklab.text.printing import printable


def print_plan(console: Console, plan: Plan, *, full: bool, script: bool) -> None:
    """Prints the plan on one screen; with `full` all figures and reasons, with `script` the commands."""
    terminal.prose(console, summary.sentences(plan))
    if full:
        for part in plan.parts:
            console.print()
            if len(plan.parts) > 1:
                console.print(f"For {part.load_names}")
            report.print_answer(console, part.answer)
    if full or script:
        report.print_script(console, plan.script())


def render(plan: Plan, *, title: str, command: str) -> str:
    """Returns the page: the plan, the tables, the reasons and the script; `command` created it."""
    sections: list[PageSection] = []
    is_split = len(plan.parts) > 1
    for part in plan.parts:
        about = f" for {part.load_names}" if is_split else ""
        label = f"-{part.name}" if is_split else ""
        sections += report.page_sections(part.answer, about=about, label=label)
    script = PlainText(HOW_TO_RUN[0].upper() + HOW_TO_RUN[1:], "\n".join(plan.script()), wrapped=True)
    sections.append(PageSection("script", "Script", "To build it on Debian, as root", [script]))
    return shell.render(
        "document.html.j2",
        sections,
        kicker="advice",
        title=title,
        facts=[printable(load.source) for part in plan.parts for load in part.loads],
        sentences=[sentence for sentence in summary.sentences(plan) if sentence.topic != "More"],
        doubts=[],
        command=command,
    )


def as_dict(plan: Plan) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "advice". The first array is at the top."""
    first, *others = plan.parts
    other_parts = []
    for part in others:
        names = {"name": part.name, "loads": [load.name for load in part.loads]}
        other_parts.append({**names, **report.as_dict(part.answer)})
    return {
        "name": first.name,
        "loads": [load.name for load in first.loads],
        **report.as_dict(first.answer),
        "other_parts": other_parts,
        "not_used": [*plan.unused],
        "script": plan.script(),
        "summary": [{"topic": sentence.topic, "text": sentence.text} for sentence in summary.sentences(plan)],
    }
