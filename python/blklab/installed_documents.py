"""Finds the documents of this installation."""

from pathlib import Path


def document_path(name: str = "") -> str:
    """Returns the path of a document of this installation, such as `howto/predict.md`; by default their directory."""
    return str((Path(__file__).with_name("docs") / name).resolve())  # In a checkout, a link to docs/
