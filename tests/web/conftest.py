"""A store with campaigns, a profile and audits, some with hostile names; the site over it; certificates and users."""

import base64
import json
import ssl
import subprocess
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import bcrypt
import pytest
from werkzeug.test import Client

from blklab.cli import main
from blklab.store import annotations, documents
from blklab.store.campaigns import Store
from blklab.web.site import Site

HOSTILE = '"><img src=x onerror=alert(2)>'
EXPERIMENT = """
title = {title}
seed = {seed}
repeats = 2

[devices.disk]
kind = "throttled"
size = "1GiB"
latency_ns = 100_000
iops_total = {iops}

[stacks.alone]
device = "disk"

[workloads.random]
rw = "randrw"
bs = "4k"

[workloads.sequential]
rw = "read"
bs = "64k"

[settings]
runtime = "1000s"
max_ios = 20000
"""

AUDIT = {
    "format_version": 1,
    "failure": None,
    "arrays": [{"name": "md0", "level": "raid1", "state": "clean", "members": [{"name": "sda1"}, {"name": "sdb1"}]}],
    "findings": [
        {
            "severity": "critical",
            "code": "bbl-entries",
            "subject": "md0",
            "member": HOSTILE,
            "message": f"1 entry {HOSTILE}",
            "remedy": [f"mdadm --fail {HOSTILE}"],
        }
    ],
    "unseen": [f"{HOSTILE}: cannot read"],
}


def blklab(*arguments: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert end.value.code == 0


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("serve")
    path = directory / "store.db"
    for seed, iops in ((1, 5000), (2, 5000), (3, 4000)):
        file = directory / "same.toml"
        file.write_text(EXPERIMENT.format(title=json.dumps("Same each day"), seed=seed, iops=iops))
        blklab("run", file, "--store", path)
    file = directory / f"{HOSTILE.replace('/', '')}.toml"
    file.write_text(EXPERIMENT.format(title=json.dumps(HOSTILE), seed=1, iops=5000))
    blklab("run", file, "--store", path)
    blklab("trace", "stat", "tests/data/traces/pgbench-raid1", "--device", "md127", "--keep", HOSTILE, "--store", path)
    store = Store(str(path))
    annotations.annotate(store, [1], "tag", "baseline")
    annotations.annotate(store, [1, 4], "note", HOSTILE)
    documents.keep(store, "audit", HOSTILE, AUDIT)
    documents.keep(store, "audit", "web1", {**AUDIT, "findings": [], "unseen": []})
    documents.keep(store, "audit", "web2", {"failure": "no route to host", "arrays": [], "findings": [], "unseen": []})
    documents.keep(store, "profile", "of another version", {"trace": {}})
    return path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority and the certificates that it signed."""
    directory = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    def key(name: str, *words: str) -> None:
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "1", "-keyout", f"{name}.key", "-out", f"{name}.crt",
                "-subj", f"/CN={name}", *words)  # fmt: skip

    key("ca", "-addext", "keyUsage=critical,keyCertSign")
    for name in ("server", "client"):
        extensions = ("basicConstraints=CA:FALSE", "subjectAltName=IP:127.0.0.1",
                      "keyUsage=digitalSignature")  # fmt: skip
        wanted = [word for extension in extensions for word in ("-addext", extension)]
        key(name, "-CA", "ca.crt", "-CAkey", "ca.key", *wanted)
    return directory


def trusting(certificates: Path, client: str = "") -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    if client:
        made.load_cert_chain(certificates / f"{client}.crt", certificates / f"{client}.key")
    return made


def ask(url: str, user: str | None = None, **options: Any) -> tuple[int, Message, str]:
    """Returns status, headers and content."""
    request = urllib.request.Request(url)  # noqa: S310  # it is ours
    if user is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(**options))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


@pytest.fixture
def site(full: Path) -> Client:
    """Returns a client of the application, without a server."""
    return Client(Site(str(full), print))


PASSWORD = "correct horse: battery" + "x" * 50  # 72 bytes, all that bcrypt looks at
HASHED = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()

PAGES = (
    "/",
    "/?name=same&tag=baseline",
    "/campaigns/1",
    "/campaigns/4",
    "/campaigns/1/report",
    "/compare?side=1&side=3",
    "/runs",
    "/runs/1",
    "/trends",
    "/trends/same?on=sim&metric=p99",
    "/traces",
    "/traces/1",
    "/hosts",
    "/hosts/2",
    "/hosts/3",
    "/hosts/4",
    "/nothing",
)
