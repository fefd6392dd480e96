"""Makes text from traces, disks and kernels, which may be hostile, safe to print."""

import unicodedata

_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    """Returns `text` with every control, formatting and unassigned character escaped.

    A process may have any name: an escape sequence in it must not reach a terminal, and a
    right-to-left override must not reorder a table. Backslashes stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escape(character) if unicodedata.category(character) in _UNSAFE else character for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
