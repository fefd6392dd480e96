"""Prometheus' web configuration file: what is refused, and how long a password takes."""

from pathlib import Path

import bcrypt
import pytest

from blklab.errors import UsageError
from blklab.web.config import WebConfig, load_web_config, make_tls_context
from tests.web.conftest import HASHED, PASSWORD


def test_it_takes_as_long_for_unknown_users(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    real = bcrypt.checkpw

    def counting(password: bytes, hashed: bytes) -> bool:
        nonlocal rounds
        rounds += 1 << int(hashed[4:6])
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", counting)
    dear = bcrypt.hashpw(b"x", bcrypt.gensalt(7)).decode()
    config = WebConfig(basic_auth_users={"cheap": HASHED, "dear": dear})
    for user, password, admitted in (
        ("cheap", "x", False), ("cheap", PASSWORD, True), ("dear", "x", True), ("dear", "y", False),
        ("nobody", "x", False),
    ):  # fmt: skip
        rounds = 0
        assert config.matches(user, password) is admitted
        assert rounds == 1 << 7, user


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("rate_limit: {burst: 1}", "rate_limit: blklab does not support this key"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: [x]}",
         "tls_server_config.cipher_suites: blklab does not support this key"),
        ("tls_server_config: {cert_file: a}", "tls_server_config.key_file: is missing"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
         "tls_server_config.client_auth_type: expected NoClientCert or"),
        ("basic_auth_users: {joe: hunter2}", "basic_auth_users.joe: expected a bcrypt hash"),
        ("basic_auth_users: {joe: 1}", "basic_auth_users.joe: expected a bcrypt hash"),
        ("basic_auth_users: [joe]", "basic_auth_users: expected a table of users"),
        ("[]", "expected a table"),
        *((empty, "found neither tls_server_config nor basic_auth_users, expected one of them")
          for empty in ("", "# tls_server_config:\n", "{}", "basic_auth_users: {}", "tls_server_config:")),
        ("a: [", "line 1: "),
        ("a: !!python/object/apply:os.getcwd []", "line 1: could not determine a constructor"),
    ],
)  # fmt: skip
def test_what_a_configuration_may_not_say(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(content)
    with pytest.raises(UsageError) as refused:
        load_web_config(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: {problem}") or f"{path}: {problem}" in message
    assert "\n" not in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("cert_file: no.crt, key_file: server.key", "No such file or directory"),
        ("cert_file: server.crt, key_file: ca.key", "KEY_VALUES_MISMATCH"),
        ("cert_file: web.yml, key_file: server.key", "PEM"),
        ("cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt", "expected both or"),
        ("cert_file: server.crt, key_file: server.key, client_auth_type:"
         " RequireAndVerifyClientCert", "expected both or"),
    ],
)  # fmt: skip
def test_certificates_that_cannot_be_used(certificates: Path, words: str, problem: str) -> None:
    path = certificates / "web.yml"
    path.write_text(f"tls_server_config: {{{words}}}")
    tls = load_web_config(path).tls_server_config
    assert tls
    with pytest.raises(UsageError, match=problem):
        make_tls_context(path, tls)
