"""Which extra of the distribution has a package that is missing."""

from typing import Final

from blklab.errors import EnvironmentLacks

EXTRAS: Final = {
    "run": ("alembic", "platformdirs", "polars", "pydantic", "scipy", "sqlalchemy", "numpy"),
    "report": ("jinja2", "markupsafe", "vl_convert"),
    "lab": ("elftools",),
    "postgresql": ("psycopg",),
    "watch": ("bcrypt", "prometheus_client", "yaml"),
    "cluster": ("dask", "distributed", "fsspec", "s3fs"),
    "serve": ("werkzeug",),
}
"""Packages by extra, as they are imported; pyproject.toml has their names and versions."""

REMEDY = "pip install 'blklab[{extra}]'"  # the command of the Debian package replaces it


def explained(error: ModuleNotFoundError) -> EnvironmentLacks | None:
    """Return what to install for a missing package; None if it belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return EnvironmentLacks(f"this command needs the missing package {package}", REMEDY.format(extra=extra))
    return None
