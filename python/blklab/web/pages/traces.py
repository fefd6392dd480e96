"""The list of profiles of traces, and the report of one."""

from blklab.campaigns import runs
from blklab.errors import BlklabError
from blklab.render.formatting import Sentence
from blklab.render.table import LinkedCell, TextTable, text_column
from blklab.store import documents
from blklab.store.campaigns import Store
from blklab.store.documents import StoredDocument
from blklab.text.printing import printable
from blklab.trace import page
from blklab.trace.profile import parse_stored_profile
from blklab.trace.view import ProfileView
from blklab.web.frame import SitePage, list_page


def list_traces(store: Store) -> SitePage:
    """Returns the list of profiles, the newest of each name."""
    rows = [
        [LinkedCell(printable(profile.name), f"/traces/{profile.id}"), runs.when(profile.created), _devices(profile)]
        for profile in documents.latest(store, "profile")
    ]
    table = TextTable(
        "Profiles of traces", [text_column("trace"), text_column("kept"), text_column("device in focus")], rows
    )
    empty = Sentence("Empty", "No profile is kept: `blklab trace stat TRACE --keep NAME` keeps one.")
    return list_page("Traces", table, sentences=[] if rows else [empty])


def _devices(profile: StoredDocument) -> str:
    try:
        return printable(ProfileView(parse_stored_profile(profile.document)).focus.label)
    except BlklabError as error:
        return str(error)


def show_trace(store: Store, number: int) -> str:
    """Returns the report of a profile, as HTML. Raises UsageError."""
    profile = documents.document(store, "profile", number)
    return page.render(
        ProfileView(parse_stored_profile(profile.document)), title=f"The workload of {printable(profile.name)}"
    )
