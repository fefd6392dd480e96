"""The web configuration file of Prometheus: certificates and users.

The format is that of all exporters of Prometheus (github.com/prometheus/exporter-toolkit, docs/web-configuration.md,
2025), so node_exporter and blklab can share a file. As there, paths are relative to the file, and it is read for every
connection. Unknown keys are refused, because they may restrict access.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from blklab.errors import UsageError
from blklab.text.user_file import read_plain_file

VERIFY_MODES = {  # Policies of Go's `crypto/tls` that Python supports; the others verify nothing
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}

TLS_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

LARGEST = 1 << 20  # Bytes of the file
BCRYPT = r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}"
DUMMY_HASH = "$2b${:02}$abcdefghijklmnopqrstuuBMoLJ7nbvfTSZRKRgxoYk3fbzTVbpWW"
"""A hash of a given cost, to compare with if there is no such user."""

Check = Callable[[str, object], Any]


def _cost(bcrypt_hash: str) -> int:
    return int(bcrypt_hash[4:6])


@dataclass(frozen=True)
class Tls:
    """The table `tls_server_config`."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: str = "NoClientCert"
    min_version: str = "TLS12"
    max_version: str = "TLS13"


@dataclass(frozen=True)
class WebConfig:
    """The whole file."""

    tls_server_config: Tls | None = None
    basic_auth_users: Mapping[str, str] = field(default_factory=dict)

    def matches(self, user: str, password: str) -> bool:
        """Whether it is the user's password; takes equally long for every user, a tenth of a second or more."""
        import bcrypt

        stored_hash = self.basic_auth_users.get(user)
        secret = password.encode()
        highest_cost = max(map(_cost, self.basic_auth_users.values()), default=10)
        compared_hash = stored_hash or DUMMY_HASH.format(highest_cost)
        # Each takes 2^cost rounds: with one of every cost up to the highest, the sum is the same.
        padding = [DUMMY_HASH.format(cost) for cost in range(_cost(compared_hash), highest_cost)]
        # bcrypt uses 72 bytes only; longer passwords are always wrong.
        is_match, *_ = [bcrypt.checkpw(secret[:72], bcrypt_hash.encode()) for bcrypt_hash in (compared_hash, *padding)]
        return is_match and stored_hash is not None and len(secret) <= 72


def load_web_config(path: Path) -> WebConfig:
    """Returns the content of a web configuration file. Raises UsageError."""
    import yaml

    try:
        content = yaml.safe_load(read_plain_file(path, LARGEST).decode())
    except UnicodeDecodeError:
        raise UsageError(f"{path}: cannot be read: it is not text") from None
    except (RecursionError, ValueError):  # A number of a million digits, for example
        raise UsageError(f"{path}: too deeply nested, or a number is too long") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f" line {mark.line + 1}:" if mark else ""
        raise UsageError(f"{path}:{position} {getattr(error, 'problem', error)}") from None
    try:
        keys = {"tls_server_config": _tls, "basic_auth_users": _users}
        config = WebConfig(**_table("", {} if content is None else content, keys))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    if not config.tls_server_config and not config.basic_auth_users:
        # Anyone could read the page, although the user asked for a restriction.
        raise UsageError(f"{path}: found neither tls_server_config nor basic_auth_users, expected one of them")
    return config


def _table(name: str, content: object, keys: Mapping[str, Check], required_keys: tuple[str, ...] = ()) -> Any:
    """Returns the checked values of a table by key. Raises ValueError with the key; a message never repeats a value."""
    prefix = f"{name}." if name else ""
    if not isinstance(content, dict):
        subject = f"{name}: " if name else ""
        raise ValueError(f"{subject}expected a table of keys and values")
    for key in content:
        if key not in keys:
            raise ValueError(f"{prefix}{key}: blklab does not support this key: remove it if you do not rely on it")
    for key in required_keys:
        if content.get(key) is None:
            raise ValueError(f"{prefix}{key}: is missing")
    return {key: keys[key](f"{prefix}{key}", value) for key, value in content.items() if value is not None}


def _tls(name: str, content: object) -> Tls:
    keys: dict[str, Check] = dict.fromkeys(("cert_file", "key_file", "client_ca_file"), _path)
    keys |= dict.fromkeys(("min_version", "max_version"), partial(_choice, TLS_VERSIONS))
    keys["client_auth_type"] = partial(_choice, VERIFY_MODES)
    return Tls(**_table(name, content, keys, ("cert_file", "key_file")))


def _users(name: str, content: object) -> dict[str, str]:
    if not isinstance(content, dict):
        raise ValueError(f"{name}: expected a table of users and bcrypt hashes")
    return {str(user): _hash(f"{name}.{user}", bcrypt_hash) for user, bcrypt_hash in content.items()}


def _hash(name: str, value: object) -> str:
    # `str` of a list with aliases of lists takes gigabytes.
    is_hash = isinstance(value, str) and re.fullmatch(BCRYPT, value, re.A)
    if not is_hash:
        # The value may be a password, so the message does not repeat it.
        raise ValueError(f"{name}: expected a bcrypt hash, as `htpasswd -nBC 10 USER` prints it")
    return str(value)


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: expected the name of a file")
    return Path(value)


def _choice(choices: Mapping[str, object], name: str, value: object) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(choices)}")
    return str(value)


def make_tls_context(path: Path, tls: Tls) -> ssl.SSLContext:
    """Returns the TLS context; `path` is that of the configuration file. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_VERSIONS[tls.min_version]
    context.maximum_version = TLS_VERSIONS[tls.max_version]
    context.verify_mode = VERIFY_MODES[tls.client_auth_type]
    if (tls.client_ca_file is None) != (context.verify_mode == ssl.CERT_NONE):
        raise UsageError(
            f"{path}: tls_server_config: client_ca_file and client_auth_type: expected both or neither; "
            "use client_auth_type: RequireAndVerifyClientCert to require a certificate"
        )
    directory = path.parent
    files = f"{directory / tls.cert_file} and {directory / tls.key_file}"
    try:
        context.load_cert_chain(directory / tls.cert_file, directory / tls.key_file)
        if tls.client_ca_file is not None:
            files = str(directory / tls.client_ca_file)
            context.load_verify_locations(directory / tls.client_ca_file)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: tls_server_config: {files}: {reason}") from None
    return context
