"""The list of profiles of traces, and the report of one."""

from dataclasses import dataclass
from functools import lru_cache

from blklab.campaigns import runs
from blklab.errors import BlklabError
from blklab.render.formatting import Sentence
from blklab.render.table import LinkedCell, TextTable, text_column
from blklab.store import documents
from blklab.store.campaigns import Store
from blklab.text.printing import printable
from blklab.trace import page
from blklab.trace.causes import cause_text, causes
from blklab.trace.profile import parse_stored_profile
from blklab.trace.view import ProfileView
from blklab.web.frame import SitePage, list_page


@dataclass(frozen=True)
class TraceSummary:
    device: str  # That in focus, or why the profile cannot be read
    cause: str  # The largest cause; empty if the profile cannot be read


def list_traces(store: Store) -> SitePage:
    """Returns the list of profiles, the newest of each name."""
    rows = []
    for profile in documents.latest_entries(store, "profile"):
        summary = _summarise(store, profile.id, profile.created)
        link = LinkedCell(printable(profile.name), f"/traces/{profile.id}")
        rows.append([link, summary.device, summary.cause, runs.when(profile.created)])
    columns = [text_column(heading) for heading in ("trace", "device", "main cause of waiting", "kept")]
    empty = Sentence("Empty", "No profile is kept: `blklab trace stat TRACE --keep NAME` keeps one.")
    return list_page("Traces", TextTable("", columns, rows), sentences=[] if rows else [empty])


@lru_cache(maxsize=1000)
def _summarise(store: Store, number: int, created: str) -> TraceSummary:  # noqa: ARG001  # a part of the key
    """Reads a profile once: it does not change after it was kept."""
    profile = documents.document(store, "profile", number)
    try:
        view = ProfileView(parse_stored_profile(profile.document))
    except BlklabError as error:
        return TraceSummary(str(error), "")
    if not view.devices:
        return TraceSummary("", "")
    found_causes = causes(view)
    cause = "No known cause"
    if found_causes:
        cause = cause_text(found_causes[0]).partition("; ")[0]
    return TraceSummary(printable(view.focus.label), cause)


def show_trace(store: Store, number: int) -> str:
    """Returns the report of a profile, as HTML. Raises UsageError."""
    profile = documents.document(store, "profile", number)
    return page.render(
        ProfileView(parse_stored_profile(profile.document)), title=f"The workload of {printable(profile.name)}"
    )
