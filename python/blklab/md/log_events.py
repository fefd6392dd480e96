"""Reads what the kernel logs about arrays and their disks, from any text: `dmesg`, journalctl, syslog, mails.

Messages: drivers/md/{md,md-bitmap,raid1,raid10,raid5}.c, block/blk-mq.c, drivers/ata/libata-{core,eh,scsi}.c,
drivers/nvme/host/pci.c, kernel/hung_task.c (Linux 6.1), and their older forms. Names in messages are hostile.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

MOST_EVENTS = 50_000  # The newest are kept
MOST_CHARACTERS = 400  # Of a line; the kernel's are shorter
MOST_PORTS = 512  # Ports and disks whose names are looked for
MOST_LINES_TO_START = 40  # Between the message about a member and the start of its array


class EventKind(StrEnum):
    """What a message says."""

    MEMBER = "member"  # A member is operational in a slot (`number`)
    STARTED = "started"  # `number` of `total` members
    NOT_CLEAN = "not-clean"
    NON_FRESH = "non-fresh"
    READ_CORRECTED = "read-corrected"
    READ_FAILED = "read-failed"  # md reads from another member, or again
    READ_REDIRECTED = "read-redirected"  # To the device
    READ_LOST = "read-lost"  # md could not correct the error
    WRITE_FAILED = "write-failed"
    SUPERBLOCK_UNWRITTEN = "superblock-unwritten"
    DISABLED = "disabled"  # Disk failure
    CONTINUING = "continuing"  # On `number` members
    TOO_MANY_ERRORS = "too-many-errors"
    DIRTY_DEGRADED = "dirty-degraded"
    TOO_FEW = "too-few"
    NOT_STARTED = "not-started"
    SYNC_STARTED = "sync-started"  # `action`, as the kernel calls it: `recovery`, `resync`, `data-check`…
    SYNC_DONE = "sync-done"
    SYNC_INTERRUPTED = "sync-interrupted"
    BITMAP = "bitmap"
    REJECTED = "rejected"  # A device is not taken as a member
    HUNG = "hung"  # A task waits for an array
    IO_ERROR = "io-error"
    MEDIUM_ERROR = "medium-error"  # The disk cannot read a sector
    DISK_ERROR = "disk-error"  # Other sense keys
    TIMED_OUT = "timed-out"  # A command
    TRANSFER_ERROR = "transfer-error"  # The checksum of a transfer over the link is wrong
    RESET = "reset"  # Of a link, port or controller
    LINK_UP = "link-up"  # `number`: megabits per second
    LINK_LIMITED = "link-limited"  # To `number` megabits per second
    VANISHED = "vanished"


@dataclass(frozen=True)
class LogEvent:
    """A message of the kernel about an array or a disk."""

    kind: EventKind
    text: str  # The message
    moment: str = ""  # As written: `[38.762338]`, `Mar  3 03:12:07`; empty if there is none
    seconds: float | None = None  # Of the moment; comparable within one log only
    clock: float | None = None
    """Seconds since 1970, of a text as if its local time were UTC, as dates of mdadm are read; None without a year."""
    array: str = ""  # The kernel's name, `md0`; empty if the message has none
    device: str = ""  # Name of the member or disk; empty if the message has none
    port: str = ""  # `ata3` or `usb 2-1`, if the message is about a port
    sector: int | None = None  # First sector of 512 bytes: of the device or, if `of_array`, of the array
    of_array: bool = False
    number: int | None = None  # A count, depending on the kind
    total: int | None = None
    action: str = ""  # The kind of a sync; the number and cause of other things


@dataclass(frozen=True)
class LogLine:
    """A line without what programs put before the kernel's message."""

    message: str
    moment: str = ""
    seconds: float | None = None
    clock: float | None = None


# --- the start of a line -------------------------------------------------------------------------

SINCE_BOOT = re.compile(
    r"(?:<\d{1,3}>)?(?:[a-z]{2,8} *:[a-z]{2,8} *: )?(\[ {0,9}(\d{1,9}\.\d{1,9})\])(?: ?\[ {0,9}[TC]\d{1,7}\])? ?", re.A
)
DAY = re.compile(
    r"(\[?(?:[^\W\d_]{2,5}\.? )?([^\W\d_]{3,5})\.? {1,3}(\d{1,2}) (?:(\d{4}) )?(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?"
    r"(?: (\d{4})\])?) "
)
OTHER_DATE = re.compile(r"(\[[^\]]{1,40}\d\d:\d\d:\d\d \d{4}\]) ")  # dmesg -T in another language
ISO = re.compile(r"(\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d:?\d\d)?\]?) ", re.A)
SENDER = re.compile(r"(?:[\w.-]{1,80} )?kernel(?:\[\d{1,9}\])?: ?", re.A)
MONTHS = (
    "jan janv ene gen", "feb févr fev", "mar mär mrz mars mrt", "apr avril abr", "may mai mag mei maj",
    "jun juin giu", "jul juil lug", "aug août ago", "sep sept set", "oct okt ott out", "nov", "dec dez déc dic",
)  # fmt: skip
"""Names of months in English, German, French, Spanish, Italian, Portuguese and Dutch: dmesg -T and syslog use them."""

MONTH_NUMBERS = {name: number for number, names in enumerate(MONTHS, 1) for name in names.split()}
LEAP_YEAR = "2000"  # Of dates without a year, which may be 29 February


def parse_line(line: str) -> LogLine:
    """Returns the message of a line and its moment, both empty if it is a message of another program."""
    text = line[:MOST_CHARACTERS].strip()
    moment = ""
    seconds = clock = None
    if match := ISO.match(text):
        moment = match[1].strip("[] ")
        seconds = clock = _parse_date(match[2], match[3], match[4] or "0")
    elif match := DAY.match(text):
        moment = match[1].strip("[] ")
        year = match[4] or match[8]
        seconds = _parse_day(match, year or LEAP_YEAR)
        clock = seconds if year else None
    elif match := OTHER_DATE.match(text):
        moment = match[1].strip("[] ")
    rest = text[match.end() :] if match else text
    sender = SENDER.match(rest)
    if sender:
        rest = rest[sender.end() :]
    boot = SINCE_BOOT.match(rest)
    if boot:
        rest = rest[boot.end() :]
        if not moment:
            moment = f"[{boot[2]}]"
            seconds = float(boot[2])
            later_sender = SENDER.match(rest)
            rest = rest[later_sender.end() :] if later_sender else rest
    return LogLine(rest.strip(), moment, seconds, clock)


def _parse_day(match: re.Match[str], year: str) -> float | None:
    """Returns the seconds of a day of a month."""
    month = MONTH_NUMBERS.get(match[2].lower())
    if month is None:
        return None
    return _parse_date(f"{year}-{month:02d}-{int(match[3]):02d}", f"{match[5]}:{match[6]}:{match[7]}", "0")


def _parse_date(day: str, time: str, fraction: str) -> float | None:
    """Returns the seconds since 1970 of a date as if it were UTC; None if there is no such date."""
    try:
        return datetime.fromisoformat(f"{day}T{time}+00:00").timestamp() + float(f"0.{fraction}")
    except (ValueError, OverflowError):
        return None


# --- messages ------------------------------------------------------------------------------------

Pattern = tuple[EventKind, re.Pattern[str]]

HEAD = re.compile(r"(?:md/)?raid\d{0,2}:?(?P<array>md[\w-]{0,30}): |(?:raid\d{1,2}|md/raid\d{0,2}): ", re.A)
"""Of a message of a level; before Linux 2.6.37 without an array."""

DEVICE = r"(?P<device>[\w!/-]{1,64})"


def _patterns(*pairs: tuple[EventKind, str]) -> tuple[Pattern, ...]:
    return tuple((kind, re.compile(text, re.A)) for kind, text in pairs)


OF_LEVELS = _patterns(
    (EventKind.MEMBER, rf"device {DEVICE} operational as raid disk (?P<number>\d{{1,4}})"),
    (EventKind.STARTED, r"(?:raid level \d{1,2} )?active with (?P<number>\d{1,4}) out of (?P<total>\d{1,4})"),
    (
        EventKind.STARTED,
        r"raid (?:level \d{1,2} )?set (?P<array>md\w{1,30}) active with (?P<number>\d{1,4}) "
        r"out of (?P<total>\d{1,4})",
    ),
    (EventKind.NOT_CLEAN, r"(?:raid array is )?not clean -- starting background reconstruction"),
    (
        EventKind.READ_CORRECTED,
        rf"read error corrected \((?P<number>\d{{1,6}}) sectors at (?P<sector>\d{{1,20}}) on {DEVICE}\)",
    ),
    (
        EventKind.READ_LOST,
        rf"read error (?:not correctable|NOT corrected!!|on replacement device) "
        rf"\(sector (?P<sector>\d{{1,20}}) on {DEVICE}\)",
    ),
    (EventKind.READ_LOST, rf"{DEVICE}: unrecoverable I/O (?:read )?error for block (?P<block>\d{{1,20}})"),
    (EventKind.READ_FAILED, rf"{DEVICE}: rescheduling sector (?P<block>\d{{1,20}})"),
    (EventKind.READ_REDIRECTED, rf"redirecting sector (?P<block>\d{{1,20}}) to (?:other|another) mirror: {DEVICE}"),
    (EventKind.READ_REDIRECTED, rf"{DEVICE}: redirecting sector (?P<block>\d{{1,20}}) to another mirror"),
    (
        EventKind.WRITE_FAILED,
        rf"(?:read correction write failed|unable to read back corrected sectors) "
        rf"\((?P<number>\d{{1,6}}) sectors at (?P<sector>\d{{1,20}}) on {DEVICE}\)",
    ),
    (EventKind.DISABLED, rf"Disk failure on {DEVICE}(?:, disabling| detected, failing|,?$)"),
    (EventKind.CONTINUING, r"Operation continuing on (?P<number>\d{1,4}) devices"),
    (
        EventKind.TOO_FEW,
        r"(?:Cannot continue operation|not enough operational devices) "
        r"\((?P<number>\d{1,4})/(?P<total>\d{1,4}) failed\)",
    ),
    (EventKind.TOO_FEW, r"not enough operational devices for (?P<array>md\w{1,30})"),
    (EventKind.TOO_FEW, r"not enough operational mirrors"),
    (EventKind.TOO_FEW, r"too few disks \(\d{1,4} of \d{1,4}\)"),
    (EventKind.TOO_MANY_ERRORS, rf"Too many read errors, failing device {DEVICE}"),
    (EventKind.TOO_MANY_ERRORS, rf"{DEVICE}: Raid device exceeded read_error threshold"),
    (EventKind.DIRTY_DEGRADED, r"cannot start dirty degraded array(?: for (?P<array>md\w{1,30}))?"),
    (EventKind.NOT_STARTED, r"failed to run raid set(?: (?P<array>md\w{1,30}))?"),
)

SYNCS = "recovery|resync|requested-resync|data-check|check|reshape"
OF_MD = _patterns(
    (EventKind.NON_FRESH, rf"md: kicking non-fresh {DEVICE} from array"),
    (EventKind.SUPERBLOCK_UNWRITTEN, r"md: super_written gets error"),
    (EventKind.SYNC_STARTED, rf"md: (?P<action>{SYNCS}) of RAID array (?P<array>md\w{{1,30}})"),
    (EventKind.SYNC_DONE, rf"md: (?P<array>md\w{{1,30}}): (?P<action>{SYNCS}) done"),
    (EventKind.SYNC_INTERRUPTED, rf"md: (?P<array>md\w{{1,30}}): (?P<action>{SYNCS}) interrupted"),
    (
        EventKind.BITMAP,
        r"(?P<array>md\w{1,30}): (?P<action>bitmap file is out of date|bitmap superblock UUID mismatch|"
        r"invalid bitmap file superblock|bitmap initiali[sz]ation failed|failed to create bitmap|"
        r"disabling internal bitmap due to errors)",
    ),
    (
        EventKind.REJECTED,
        rf"md: {DEVICE} (?P<action>does not have a valid v[\d.]{{1,6}} superblock|has different UUID to|"
        r"has same UUID but different superblock to|has strangely different superblock to|"
        r"has zero or unknown size)",
    ),
    (
        EventKind.REJECTED,
        rf"md: (?P<action>invalid raid superblock magic|invalid superblock checksum|data_size too small) on {DEVICE}",
    ),
    (EventKind.REJECTED, rf"md: (?P<action>could not (?:bdev )?lock) {DEVICE}"),
    (EventKind.REJECTED, rf"md: (?P<action>could not read) {DEVICE}'s sb"),
    (EventKind.REJECTED, rf"md: (?P<action>fatal superblock inconsistency) in {DEVICE} "),
    (EventKind.REJECTED, rf"md: disabled device {DEVICE}, (?P<action>could not read superblock)"),
    (EventKind.REJECTED, rf"md: Removing Candidate device {DEVICE} because (?P<action>add failed)"),
    (EventKind.REJECTED, rf"md: (?P<action>can ?not hot-add faulty) {DEVICE} disk to (?P<array>md\w{{1,30}})"),
    (EventKind.REJECTED, rf"(?:md: )?(?P<array>md\w{{1,30}}): (?P<action>failed to add) (?:device )?{DEVICE}"),
    (EventKind.REJECTED, r"md: (?P<action>could not open device) (?P<device>unknown-block\(\d{1,6},\d{1,8}\))"),
)

OF_BLOCKS = _patterns(
    (EventKind.MEDIUM_ERROR, rf"(?:\w{{3,24}}: )?critical medium error, dev {DEVICE}, sector (?P<sector>\d{{1,20}})"),
    (EventKind.TIMED_OUT, rf"(?:\w{{3,24}}: )?timeout error, dev {DEVICE}, sector (?P<sector>\d{{1,20}})"),
    (
        EventKind.IO_ERROR,
        rf"(?:\w{{3,24}}: )?(?:critical )?(?P<action>[\w/]{{2,24}}(?: \w{{2,20}})?) error, dev {DEVICE}, "
        r"sector (?P<sector>\d{1,20})",
    ),
)

OF_ATA = _patterns(
    (EventKind.TIMED_OUT, r"qc timeout (?:after \d{1,9} msecs )?\(cmd 0x"),
    (EventKind.MEDIUM_ERROR, r"error: \{ (?:\w{2,6} ){0,5}UNC "),
    (EventKind.TRANSFER_ERROR, r"error: \{ (?:\w{2,6} ){0,5}ICRC "),
    (EventKind.TRANSFER_ERROR, r"SError: \{ (?:\w{2,12} ){0,16}BadCRC "),
    (EventKind.RESET, r"(?:hard|soft) resetting link"),
    (EventKind.LINK_UP, r"SATA link up (?P<gigabits>\d{1,2}\.\d) Gbps"),
    (EventKind.LINK_LIMITED, r"limiting SATA link speed to (?P<gigabits>\d{1,2}\.\d) Gbps"),
    (EventKind.VANISHED, r"SATA link down"),
    (EventKind.VANISHED, r"(?:disabled|disable device)$"),
    (EventKind.VANISHED, r"reset failed, giving up"),
    (EventKind.VANISHED, r"detaching \(SCSI "),
)

OF_SCSI = _patterns(
    (EventKind.MEDIUM_ERROR, r"(?:tag#\d{1,6} )?Sense Key : Medium Error"),
    (EventKind.DISK_ERROR, r"(?:tag#\d{1,6} )?Sense Key : (?P<action>Hardware Error|Not Ready|Aborted Command)"),
    (EventKind.VANISHED, r"(?:rejecting I/O to (?:offline|dead) device|Device offlined|killing request)"),
    (EventKind.VANISHED, r".{0,160}hostbyte=DID_NO_CONNECT"),
    (EventKind.TIMED_OUT, r"(?:tag#\d{1,6} )?(?:\w{1,12}: )?attempting task abort"),
)

OF_NVME = _patterns(
    (EventKind.VANISHED, r"(?:Removing after probe failure|Disabling device after reset failure)"),
    (EventKind.VANISHED, r"failure state error detected"),
    (EventKind.RESET, r"(?:controller is down; will reset|resetting controller|frozen state error detected)"),
    (EventKind.TIMED_OUT, r"I/O (?:tag )?\d{1,9}.{0,60} timeout"),
)

ATA = re.compile(r"(?P<port>ata\d{1,5})(?:\.\d\d)?: (?P<rest>.*)", re.A)
ATA_RESULT = re.compile(r"res [\da-f/:]{10,60} Emask 0x[\da-f]{1,8} \(timeout\)", re.A)
SCSI = re.compile(
    r"(?:sd|scsi) (?P<address>\d{1,5}:\d{1,5}:\d{1,5}:\d{1,10}): (?:\[(?P<disk>sd[a-z]{1,4})\] )?(?P<rest>.*)", re.A
)
NVME = re.compile(r"nvme (?P<device>nvme\d{1,5}): (?P<rest>.*)", re.A)
USB = re.compile(r"(?P<port>usb \d{1,3}-[\d.]{1,20}): (?P<rest>.*)", re.A)
HUNG = re.compile(r"INFO: task (?P<task>\S{1,40}):\d{1,9} blocked(?: for more than (?P<number>\d{1,6}) seconds)?", re.A)
MD_TASK = re.compile(r"(?P<array>md\w{1,30})_(?:resync|recovery|reshape|raid\d{1,2}|cluster\w{0,8})$", re.A)
MD_STACK = re.compile(r"\b(?:md_(?:write_start|make_request|handle_request|flush_request|super_wait|submit_bio)|"
                      r"(?:raid\d{1,2}|raid456)_\w{3,40}|\[(?:raid\d{1,3}|md_mod)\])", re.A)  # fmt: skip
DISK_TROUBLE = re.compile(r"(?:tag#|Unhandled|FAILED|Sense Key|Add\. Sense|CDB:|Result:|rejecting)", re.A)
MOST_AFTER = 5  # Lines after the kernel has handled an error of a port, in which it tells the disk
MOST_STACK_LINES = 40

HOST = re.compile(r"scsi host(?P<host>\d{1,5}): (?P<driver>[\w-]{1,40})(?: (?P<usb>\d{1,3}-[\d.]{1,20}):)?", re.A)
PORT = re.compile(r"(?P<port>ata\d{1,5}): [PS]ATA max ", re.A)
DETACHED = re.compile(r"(?P<port>ata\d{1,5})(?:\.\d\d)?: detaching \(SCSI (?P<address>[\d:]{7,30})\)", re.A)


def parse_message(line: LogLine) -> LogEvent | None:
    """Returns the event of a message; None for a message about other things."""
    message = line.message
    if message.startswith(("md/raid", "raid")) and (match := HEAD.match(message)):
        event = _match(OF_LEVELS, message[match.end() :], line)
        return replace(event, array=event.array or match["array"] or "") if event else None
    if message.startswith("md"):
        return _match(OF_MD, message, line)
    if " error, dev " in message:
        return _match(OF_BLOCKS, message, line)
    if message.startswith("ata") and (match := ATA.match(message)):
        event = _match(OF_ATA, match["rest"], line)
        return event and replace(event, port=match["port"])
    if message.startswith("sd") and (match := SCSI.match(message)):
        event = _match(OF_SCSI, match["rest"], line)
        return event and replace(event, device=match["disk"] or "", port=f"scsi {match['address']}")
    if message.startswith("nvme") and (match := NVME.match(message)):
        event = _match(OF_NVME, match["rest"], line)
        return event and replace(event, device=match["device"])
    if message.startswith("usb") and (match := USB.match(message)):
        if match["rest"].startswith("USB disconnect"):
            return _make_event(EventKind.VANISHED, line, port=match["port"])
        if re.match(r"reset \S{1,20} USB device", match["rest"]):
            return _make_event(EventKind.RESET, line, port=match["port"])
    return None


def _match(patterns: Iterable[Pattern], text: str, line: LogLine) -> LogEvent | None:
    for kind, pattern in patterns:
        match = pattern.match(text)
        if match:
            return _read_groups(kind, match.groupdict(), line)
    return None


def _read_groups(kind: EventKind, groups: Mapping[str, str | None], line: LogLine) -> LogEvent:
    """Returns an event with the values that a pattern has named."""
    block = groups.get("block")
    sector = block or groups.get("sector")
    number = groups.get("number")
    gigabits = groups.get("gigabits")
    total = groups.get("total")
    count = int(number) if number else None
    if gigabits:
        count = round(float(gigabits) * 1000)
    return _make_event(
        kind,
        line,
        array=groups.get("array") or "",
        device=(groups.get("device") or "").replace("/dev/", ""),
        sector=int(sector) if sector else None,
        of_array=block is not None,
        number=count,
        total=int(total) if total else None,
        action=groups.get("action") or "",
    )


def _make_event(kind: EventKind, line: LogLine, **values: object) -> LogEvent:
    event = LogEvent(kind, line.message, line.moment, line.seconds, line.clock)
    return replace(event, **values)  # type: ignore[arg-type]


# --- a whole log ---------------------------------------------------------------------------------


@dataclass
class DiskNames:
    """What a log says of which disk is at which port."""

    disks: dict[str, set[str]] = field(default_factory=dict)  # Names by the address of SCSI, `2:0:0:0`
    hosts: dict[str, str] = field(default_factory=dict)  # Number of the SCSI host, by port
    addresses: dict[str, str] = field(default_factory=dict)  # Address of SCSI, by port
    seen: dict[str, set[str]] = field(default_factory=dict)  # Disks with errors while only this port had some
    new_hosts: list[str] = field(default_factory=list)
    new_ports: list[str] = field(default_factory=list)
    open_ports: dict[str, int | None] = field(default_factory=dict)
    """Ports with an error, and the number of the line that ended its handling; None until then."""
    line_count: int = 0

    def read(self, message: str) -> None:
        """Takes what a message says about names."""
        self.line_count += 1
        if message.startswith("scsi host") and (host := HOST.match(message)):
            self._take_host(host)
        elif message.startswith("ata"):
            self._take_port(message)
        elif message.startswith("sd ") and (match := SCSI.match(message)) and match["disk"]:
            if len(self.disks) < MOST_PORTS or match["address"] in self.disks:
                self.disks.setdefault(match["address"], set()).add(match["disk"])
            ports = [
                port for port, end in self.open_ports.items() if end is None or self.line_count - end <= MOST_AFTER
            ]
            if len(ports) == 1 and DISK_TROUBLE.match(match["rest"]):
                self.seen.setdefault(ports[0], set()).add(match["disk"])

    def _take_host(self, host: re.Match[str]) -> None:
        if host["usb"]:
            self.hosts[f"usb {host['usb']}"] = host["host"]
        elif host["driver"] not in {"uas", "usb-storage"}:
            if self.new_ports:
                self.finish_hosts()
            self.new_hosts.append(host["host"])

    def _take_port(self, message: str) -> None:
        """Takes a port: libata names all hosts of a controller, then all its ports (`ata_host_register`)."""
        if port := PORT.match(message):
            self.new_ports.append(port["port"])
        elif detached := DETACHED.match(message):
            self.addresses[detached["port"]] = detached["address"]
        elif match := ATA.match(message):
            is_known = match["port"] in self.open_ports or len(self.open_ports) < MOST_PORTS
            if match["rest"].startswith("exception Emask") and is_known:
                self.open_ports[match["port"]] = None
            elif match["rest"].startswith("EH complete") and match["port"] in self.open_ports:
                self.open_ports[match["port"]] = self.line_count

    def finish_hosts(self) -> None:
        """Pairs the hosts and ports of a controller, if they are complete."""
        if len(self.new_hosts) == len(self.new_ports) and len(self.hosts) < MOST_PORTS:
            self.hosts.update(zip(self.new_ports, self.new_hosts, strict=True))
        self.new_hosts = []
        self.new_ports = []

    def find_disk(self, port: str) -> str:
        """Returns the name of the only disk at a port; empty if the log does not show it."""
        address = self.addresses.get(port) or port.removeprefix("scsi ")
        names = set(self.disks.get(address, ()))
        if not names and port in self.hosts:
            for other, disks in self.disks.items():
                if other.startswith(f"{self.hosts[port]}:"):
                    names |= disks
        names = names or self.seen.get(port, set())
        return next(iter(names)) if len(names) == 1 else ""


def find_events(lines: Iterable[str], disks_of_ports: Mapping[str, str] | None = None) -> list[LogEvent]:
    """Returns the events in the lines of a text, in their order.

    `disks_of_ports` has names of disks by port (`ata3`), which are used where the text does not show them.
    """
    names = DiskNames()
    events: deque[LogEvent] = deque(maxlen=MOST_EVENTS)
    for event in _find_plain_events(lines, names):
        events.append(event)
    names.finish_hosts()
    disks = dict.fromkeys((event.port for event in events if event.port), "")
    for port in disks:
        disks[port] = names.find_disk(port) or (disks_of_ports or {}).get(port, "")
    result = []
    for event in events:
        disk = event.device or disks.get(event.port, "")
        result.append(replace(event, device=disk) if disk != event.device else event)
    return _add_arrays(result)


def _parse_lines(lines: Iterable[str]) -> Iterator[tuple[LogLine, LogEvent | None]]:
    """Yields the lines of a text with their events.

    A mail may have wrapped a line: one that says nothing alone is joined with the next, if that says nothing either.
    """
    before: LogLine | None = None  # Says nothing alone
    for text in lines:
        line = parse_line(text)
        event = parse_message(line)
        if before is not None:
            if event is None and not line.moment and line.message:
                joined = replace(before, message=f"{before.message} {line.message}"[:MOST_CHARACTERS])
                joined_event = parse_message(joined)
                if joined_event:
                    yield joined, joined_event
                    before = None
                    continue
            yield before, None
            before = None
        if event is None:
            before = line
        else:
            yield line, event
    if before is not None:
        yield before, None


def _find_plain_events(lines: Iterable[str], names: DiskNames) -> Iterator[LogEvent]:
    """Yields events as messages have them, and gives each message to `names`."""
    port = ""
    live_ports: set[str] = set()  # With a disk; the kernel says of empty ports that their link is down
    tasks = HungTasks()
    for line, event in _parse_lines(lines):
        names.read(line.message)
        hung = tasks.read(line)
        if hung:
            yield hung
        ata = ATA.match(line.message) if line.message.startswith("ata") else None
        port = ata["port"] if ata else port
        if event:
            is_empty_port = "SATA link down" in line.message and event.port not in live_ports
            live_ports.add(event.port)
            if not is_empty_port:
                yield event
        elif port and ATA_RESULT.match(line.message):
            yield _make_event(EventKind.TIMED_OUT, line, port=port)


@dataclass
class HungTasks:
    """The task that the kernel called blocked last, while its stack may follow."""

    line: LogLine | None = None
    stack_lines: int = 0

    def read(self, line: LogLine) -> LogEvent | None:
        """Returns the event of a blocked task of md, or of one that waits in md according to its stack."""
        task = HUNG.match(line.message) if line.message.startswith("INFO: task") else None
        if task:
            md_task = MD_TASK.match(task["task"])
            self.line = None if md_task else line
            self.stack_lines = 0
            if md_task:
                return replace(_read_groups(EventKind.HUNG, task.groupdict(), line), array=md_task["array"])
            return None
        if self.line is None:
            return None
        self.stack_lines += 1
        waiting = self.line
        if self.stack_lines >= MOST_STACK_LINES:
            self.line = None
        if not MD_STACK.search(line.message):
            return None
        self.line = None
        match = HUNG.match(waiting.message)
        return _read_groups(EventKind.HUNG, match.groupdict() if match else {}, waiting)


def _add_arrays(events: list[LogEvent]) -> list[LogEvent]:
    """Returns events, those about members that md kicks with the array that is started next.

    Those of `md: super_written` have the disk whose error is logged directly before.
    """
    result = list(events)
    for position, event in enumerate(events):
        if event.kind in {EventKind.NON_FRESH, EventKind.MEMBER} and not event.array:
            following = events[position + 1 : position + 1 + MOST_LINES_TO_START]
            names = [other.array for other in following if other.array]
            if names:
                result[position] = replace(event, array=names[0])
        elif event.kind is EventKind.SUPERBLOCK_UNWRITTEN and position:
            before = events[position - 1]
            if before.kind in {EventKind.IO_ERROR, EventKind.MEDIUM_ERROR}:
                result[position] = replace(event, device=before.device)
    return result


def find_disk_name(device: str) -> str:
    """Returns the name of the disk of a partition by the kernel's rules: `sda` of sda3, `nvme0n1` of nvme0n1p2."""
    match = re.fullmatch(
        r"((?:sd|vd|xvd|hd)[a-z]{1,4})\d{1,3}|((?:nvme\d+n\d+|mmcblk\d+|loop\d+|md\d+))p\d{1,3}", device, re.A
    )
    return (match[1] or match[2]) if match else device
