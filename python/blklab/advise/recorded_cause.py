"""What limits the storage of today, as the traces of loads show it: it comes before anything is bought."""

from collections.abc import Sequence

from blklab import _core
from blklab.advise.question import Load
from blklab.text.printing import printable
from blklab.trace.causes import cause_text, causes
from blklab.trace.profile import characterise
from blklab.trace.view import ProfileView

LEAST_WEIGHT = 0.3  # Share of the waiting from which a cause comes before the advice


def describe_causes(loads: Sequence[Load]) -> list[str]:
    """Returns the largest cause of each trace, and what to try; none for loads without a trace.

    The whole trace is read, with the devices below that of the load: its members show the cause. Raises BlklabError.
    """
    lines = []
    for load in loads:
        if not load.timed:
            continue
        found_causes = causes(ProfileView(characterise([str(load.table["replay"])], _core.Filter())))
        serious_causes = [cause for cause in found_causes if cause.severity != "note" and cause.weight >= LEAST_WEIGHT]
        if serious_causes:
            cause = serious_causes[0]
            lines.append(f"{printable(load.name)}: {cause_text(cause)}. Try first: {printable(cause.remedy[0])}.")
    return lines
