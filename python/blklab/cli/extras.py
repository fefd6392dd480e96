"""The extras of the package: which of them a command needs, and how to install them."""

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from blklab.errors import EnvironmentLacks
from blklab.installed_documents import document_path

ExtraName = Literal["run", "report", "lab", "postgresql", "watch", "cluster", "serve"]

EXTRAS: dict[ExtraName, tuple[str, ...]] = {
    "run": ("alembic", "platformdirs", "polars", "pydantic", "scipy", "sqlalchemy", "numpy", "tomli_w"),
    "report": ("jinja2", "markupsafe", "vl_convert"),
    "lab": ("elftools",),
    "postgresql": ("psycopg",),
    "watch": ("bcrypt", "prometheus_client", "yaml"),
    "cluster": ("dask", "distributed", "fsspec", "s3fs"),
    "serve": ("bcrypt", "werkzeug", "yaml"),
}
"""The packages of each extra, as they are imported; pyproject.toml has their names and versions."""

OPTIONS: dict[str, ExtraName] = {
    " --cluster ": "cluster",
    " --html ": "report",
    " --keep ": "run",
    " --on lab ": "lab",
    " --store postgresql:": "postgresql",
}
"""The extras of options, by how they are typed."""

INSTALL = ""  # The words before the wheel's name; the command of the Debian package sets them


def missing(extras: Iterable[ExtraName]) -> list[ExtraName]:
    """Return those extras of which a package is not installed; imports none."""
    return [extra for extra in dict.fromkeys(extras) if not all(map(importlib.util.find_spec, EXTRAS[extra]))]


def explain(error: ModuleNotFoundError, extras: Sequence[ExtraName], arguments: Sequence[str]) -> None:
    """Raise EnvironmentLacks with all missing extras of a command line, if the module belongs to an extra."""
    package = (error.name or "").partition(".")[0]
    providers = [extra for extra, packages in EXTRAS.items() if package in packages]
    if providers:
        command_line = f" {' '.join(arguments)} ".replace("=", " ")
        extras = [*extras, *(extra for option, extra in OPTIONS.items() if option in command_line)]
        if not set(providers) & set(extras):
            extras.append(providers[0])
        lacking = missing(extras) or providers[:1]
        problem = f"this command needs missing extras: {', '.join(lacking)} ({package} is not installed)"
        raise EnvironmentLacks(problem, remedy(lacking)) from error


def remedy(extras: Sequence[ExtraName]) -> str:
    """Return the command that installs extras. It names a file, because the name on PyPI is not ours."""
    import json
    import re
    import shlex
    from importlib.metadata import distributions
    from urllib.parse import unquote, urlsplit

    package = next(iter(distributions(name="blklab")), None)
    if package is None:
        return f"see {document_path('howto/install.md')}"
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    wheel = unquote(urlsplit(origin.get("url", "")).path)
    if origin.get("dir_info", {}).get("editable"):
        return f"make -C {shlex.quote(wheel)} setup"
    note = ""
    if not Path(wheel).name or not Path(wheel).exists():
        tags = re.findall(r"(?m)^Tag: (.+)-(.+)$", package.read_text("WHEEL") or "")
        wheel = f"./blklab-{package.version}-{tags[0][0]}-{'.'.join(platform for _, platform in tags)}.whl"
        note = f" (`make dist` builds this file: {document_path('howto/install.md')})"
    program = INSTALL or _installer()
    if program.endswith("--force"):  # Replaces the environment
        extras = [extra for extra in EXTRAS if extra in extras or not missing([extra])]
    return f"{program} {shlex.quote(wheel + '[' + ','.join(extras) + ']')}{note}"


def _installer() -> str:
    """Return the command that has installed blklab here, up to the name of the file."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return "pipx install --force"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool install --force"
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {sys.executable}"
    return f"{sys.executable} -m pip install"
