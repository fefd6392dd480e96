"""Prometheus's web configuration file: certificates, and who may ask.

The format is that of all of Prometheus's programs (github.com/prometheus/exporter-toolkit,
docs/web-configuration.md, 2025), so that one file serves node_exporter and blklab: as there, names
of files are relative to it, and it is read for every connection. What is not known here is refused,
for it may be what somebody relies on.
"""

import re
import ssl
import threading
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import bcrypt
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from blklab.errors import UsageError

VERIFYING: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
"""Policies of Go's `crypto/tls` that Python's have a word for; the others verify nothing."""

VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

NOBODY: Final = "$2b${:02}$abcdefghijklmnopqrstuuBMoLJ7nbvfTSZRKRgxoYk3fbzTVbpWW"
"""A hash of a cost, to compare with where there is no user's."""

_hashing = threading.Lock()


def _hash(value: str) -> str:
    if not re.fullmatch(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}", value, re.A):
        # It may be a password: it is not repeated.
        raise ValueError("is not a bcrypt hash, as `htpasswd -nBC 10 USER` prints it")
    return value


def _cost(hashed: str) -> int:
    return int(hashed[4:6])


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Tls(_Table):
    """`tls_server_config`."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"


class WebConfig(_Table):
    """The file."""

    tls_server_config: Tls | None = None
    basic_auth_users: dict[str, Annotated[str, AfterValidator(_hash)]] = {}

    def admits(self, user: str, password: str) -> bool:
        """Tells whether it is the user's password; takes as long whoever it is."""
        known = self.basic_auth_users.get(user)
        secret = password.encode()
        dearest = max(map(_cost, self.basic_auth_users.values()), default=10)
        compared = known or NOBODY.format(dearest)
        # 2^cost rounds each: with one of every cost between they are as many as the dearest's.
        padding = [NOBODY.format(cost) for cost in range(_cost(compared), dearest)]
        # bcrypt looks at 72 bytes; longer ones are no password of anybody's.
        with _hashing:  # one at a time: guessing keeps one CPU busy, not all
            same, *_ = [
                bcrypt.checkpw(secret[:72], hashed.encode()) for hashed in (compared, *padding)
            ]
        return same and known is not None and len(secret) <= 72


def load(path: Path) -> WebConfig:
    """Reads a web configuration file. Raises UsageError: file, key, what was expected."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path}: cannot be read: {reason}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}:" if mark else ""
        raise UsageError(f"{path}:{where} {getattr(error, 'problem', error)}") from None
    try:
        config = WebConfig.model_validate({} if content is None else content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise UsageError(f"{path}: {_problem(first)}") from None
    return config


def context(path: Path, tls: Tls) -> ssl.SSLContext:
    """Returns what serves TLS; `path` is the configuration's. Raises UsageError."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = VERSIONS[tls.min_version]
    made.maximum_version = VERSIONS[tls.max_version]
    made.verify_mode = VERIFYING[tls.client_auth_type]
    if (tls.client_ca_file is None) != (made.verify_mode == ssl.CERT_NONE):
        raise UsageError(
            f"{path}: tls_server_config: client_ca_file and client_auth_type go together: one says"
            " whose certificates, the other whether one must be shown (RequireAndVerifyClientCert)"
        )
    directory = path.parent
    files = f"{directory / tls.cert_file} and {directory / tls.key_file}"
    try:
        made.load_cert_chain(directory / tls.cert_file, directory / tls.key_file)
        if tls.client_ca_file is not None:
            files = str(directory / tls.client_ca_file)
            made.load_verify_locations(directory / tls.client_ca_file)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: tls_server_config: {files}: {reason}") from None
    return made


def _problem(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "extra_forbidden":
            what = "is not known here, and might be what you rely on"
        case "missing":
            what = "is missing"
        case "value_error":
            what = str(error["ctx"]["error"])
        case "model_type":
            what = "expected a table of keys and values"
        case _:
            what = error["msg"][:1].lower() + error["msg"][1:]
    return f"{where}: {what}" if where else what
