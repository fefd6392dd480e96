"""The screen of a recording that goes on: the last seconds, refreshed."""

from collections import deque
from collections.abc import Mapping

from blklab.documents.profile import Profile
from blklab.render import formatting, terminal
from blklab.render.console import Console, style_text
from blklab.render.formatting import sparkline
from blklab.trace.record.live import LiveLook
from blklab.trace.tables import devices as device_tables
from blklab.trace.tables import life, load
from blklab.trace.view import DeviceView, ProfileView

COURSE = 40  # Looks in the sparklines
PROCESSES = 5
SLOWEST = 5


class LiveScreen:
    """What was seen in the last looks."""

    def __init__(self, names: Mapping[str, str], first: str) -> None:
        """Takes the names of the devices by `major,minor`, and the number of the main one."""
        self.names = names
        self.first = first
        self._rates: deque[float] = deque(maxlen=COURSE)
        self._latencies: deque[float] = deque(maxlen=COURSE)
        self._look: LiveLook | None = None
        self._view: ProfileView | None = None

    def add(self, look: LiveLook) -> None:
        """Takes the next look."""
        self._look = look
        self._view = None if look.profile is None else self._make_view(look.profile, look.length_ns)
        device = self._device()
        self._rates.append(device.iops or 0.0 if device else 0.0)
        self._latencies.append(_p99(device) if device else 0.0)

    def _make_view(self, profile: Profile, length_ns: int) -> ProfileView:
        for device in profile.devices:
            device.name = self.names.get(device.device, device.name)
            # Rates are those of the whole window.
            device.first_ns = 0
            device.last_ns = length_ns
            device.observed_ns = length_ns
        return ProfileView(profile)

    def _device(self) -> DeviceView | None:
        if self._view is None:
            return None
        return next((device for device in self._view.devices if device.number == self.first), None)

    def line(self) -> str:
        """Returns the main device in one line."""
        name = self.names[self.first]
        device = self._device()
        elapsed = formatting.duration(round(self._look.elapsed, 1) * 1e9 if self._look else 0.0)
        if device is None or not device.ios:
            return f"{elapsed}  {name}  no I/O"
        level = device.data.in_flight
        parts = [
            f"{formatting.number(device.iops)} IOPS",
            formatting.rate(device.throughput),
            f"{formatting.share(device.op('read').share_of_ios)} reads",
            f"p99 {formatting.duration(_p99(device))}",
            f"depth {formatting.number(level.mean)} (at most {level.max:,})",
        ]
        if self._look and self._look.dropped_events:
            parts.append(f"{formatting.plural(self._look.dropped_events, 'event')} dropped: figures are too low")
        return f"{elapsed}  {name}  {', '.join(parts)}"

    def draw(self, console: Console) -> None:
        """Prints the screen."""
        console.print(style_text(self.line(), "bold"))
        console.print(style_text(f"IOPS         {sparkline(list(self._rates))}", "cyan"))
        console.print(style_text(f"p99 latency  {sparkline(list(self._latencies))}", "cyan"))
        view = self._view
        device = self._device()
        if view is None:
            return
        if len(self.names) > 1:
            terminal.draw_table(console, device_tables.overview(view))
        if device is not None and device.active:
            terminal.draw_table(console, load.groups(device, "processes", PROCESSES), life.slowest(device, SLOWEST))


def _p99(device: DeviceView) -> float:
    responses = [device.response(op) for op in device.ops]
    return max((response[1].p99 or 0.0 for response in responses if response), default=0.0)
