"""Pictures of density as PNG, to embed in pages."""

import base64
import struct
import zlib
from collections.abc import Sequence

Colour = tuple[int, int, int, int]  # Red, green, blue and opacity, 0..=255


def png(rows: Sequence[bytes], palette: Sequence[Colour]) -> bytes:
    """Returns a picture with one byte for each pixel, an index into at most 256 colours."""
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", b"".join(bytes(colour[:3]) for colour in palette)),
        (b"tRNS", bytes(colour[3] for colour in palette)),
        (b"IDAT", pixels),
        (b"IEND", b""),
    ]
    encoded = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(encoded)


def shades(colour: str, most: int) -> list[Colour]:
    """Returns `most` shades of a colour `#rrggbb`, from pale to opaque."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return [(red, green, blue, round(255 * (0.2 + 0.8 * level / most))) for level in range(1, most + 1)]


def data_url(picture: bytes) -> str:
    """Returns the address of a PNG that contains it."""
    return "data:image/png;base64," + base64.b64encode(picture).decode()
