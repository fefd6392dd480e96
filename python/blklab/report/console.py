"""rich's types for annotations: importing rich takes longer than many commands."""

from typing import TYPE_CHECKING, Any

__all__ = ["Console", "RenderableType"]

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
else:
    Console = RenderableType = Any
