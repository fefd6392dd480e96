"""rich's types for annotations: importing rich takes longer than many commands."""

from typing import TYPE_CHECKING, Any

__all__ = ["Console", "RenderableType", "Text", "assemble_text", "style_text"]

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text
else:
    Console = RenderableType = Text = Any


def style_text(text: str, style: str = "") -> Text:
    """Returns text that is printed literally, in a style."""
    from rich.text import Text as RichText

    return RichText(text, style=style)


def assemble_text(*parts: str | Text | tuple[str, str]) -> Text:
    """Returns a text of parts; a pair is a text and its style."""
    from rich.text import Text as RichText

    return RichText.assemble(*parts)
