"""Shingled disks that manage it themselves and do not report it to the kernel, by the names of their models."""

import re

PATTERNS = (
    # Seagate, "CMR and SMR hard drives" (the maker's list of 2020 and after); Archive v2; Exos 5E8.
    r"ST(2000DM00[58]|3000DM007|[48]000DM004|6000DM003)",
    r"ST([568]000AS00|5000LM000|[34]000LM024|2000LM0(15|07)|1000LM0(35|48)|500LM030)",
    # Western Digital, "On WD Red NAS drives" (2020). With 8 TB and more, the same letters are not shingled.
    r"WD([2346]0E(FAX|ZAZ|DAZ)|[12]0S[PM]ZX|10SP[SW]X)",
    # Toshiba, "CMR and SMR" list (2020).
    r"(TOSHIBA[ _])?(MQ04|MQ03UB|DT02ABA|HDWD2|HDWL1|HDWT[48])",
    # HGST and Western Digital disks that the host manages.
    r"[HW]SH\d",
)
PREFIX = r"(?:APPLE HDD[ _])?(?:WDC?[ _]|DC[ _]|HGST[ _])?"


def is_shingled(name: str) -> bool:
    """Returns whether a disk of this name, as the kernel reads it, has shingled tracks."""
    plain_name = name.strip()
    return any(re.match(f"{PREFIX}{pattern}", plain_name, re.IGNORECASE) for pattern in PATTERNS)
