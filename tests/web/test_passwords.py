"""Right passwords are hashed once; guesses are limited."""

import threading

import pytest

from blklab.web import passwords
from blklab.web.config import WebConfig
from blklab.web.passwords import PasswordChecks, TooManyGuesses
from tests.web.conftest import HASHED, PASSWORD

CONFIG = WebConfig(basic_auth_users={"joe": HASHED})


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the users whose password was hashed."""
    users: list[str] = []
    matches = WebConfig.matches

    def count(config: WebConfig, user: str, password: str) -> bool:
        users.append(user)
        return matches(config, user, password)

    monkeypatch.setattr(WebConfig, "matches", count)
    return users


def test_a_right_password_is_hashed_once(hashes: list[str]) -> None:
    checks = PasswordChecks()
    for _ in range(3):
        assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    assert hashes == ["joe"]


def test_a_wrong_password_is_hashed_each_time(hashes: list[str]) -> None:
    checks = PasswordChecks()
    for _ in range(2):
        assert not checks.admits(CONFIG, "10.0.0.1", "joe", "wrong")
    assert hashes == ["joe", "joe"]


def test_a_request_without_credentials_is_refused_at_once(hashes: list[str]) -> None:
    assert not PasswordChecks().admits(CONFIG, "10.0.0.1", "", "")
    assert hashes == []


def test_a_removed_user_is_not_remembered() -> None:
    checks = PasswordChecks()
    assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    assert not checks.admits(WebConfig(basic_auth_users={"ann": HASHED}), "10.0.0.1", "joe", PASSWORD)


def test_a_right_password_is_forgotten(hashes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "REMEMBERED_S", 0.0)
    checks = PasswordChecks()
    assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    assert len(hashes) == 2


def test_no_more_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MOST_REMEMBERED", 1)
    checks = PasswordChecks()
    config = WebConfig(basic_auth_users={"joe": HASHED, "ann": HASHED})
    for user in ("joe", "ann"):
        assert checks.admits(config, "10.0.0.1", user, PASSWORD)
    assert len(checks._right) == 1


def test_guesses_of_one_client_delay_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While two guesses are checked, the next one is refused at once; who is known gets in."""
    checks = PasswordChecks()
    assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    go_on = threading.Event()
    monkeypatch.setattr(WebConfig, "matches", lambda *_: not go_on.wait(60))
    begun = threading.Semaphore(0)

    def guess() -> None:
        begun.release()
        checks.admits(CONFIG, "10.0.0.9", "joe", "wrong")

    threads = [threading.Thread(target=guess) for _ in range(2)]
    for thread in threads:
        thread.start()
        begun.acquire()
    while checks._waiting.get("10.0.0.9") != 2:
        pass
    with pytest.raises(TooManyGuesses):
        checks.admits(CONFIG, "10.0.0.9", "joe", "wrong")
    assert checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    go_on.set()
    for thread in threads:
        thread.join()
    assert checks._waiting == {}


def test_a_check_does_not_wait_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "PATIENCE_S", 0.01)
    checks = PasswordChecks()
    with checks._hashing, pytest.raises(TooManyGuesses):
        checks.admits(CONFIG, "10.0.0.1", "joe", PASSWORD)
    assert checks._waiting == {}
