"""Checks of passwords: each right one is hashed once, and guesses delay no other client.

A bcrypt hash takes a tenth of a second or more. So right passwords are remembered for some minutes, as a keyed hash in
memory only. Wrong ones wait in a short queue, one of each client at a time.
"""

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from blklab.web.config import WebConfig

REMEMBERED_S = 600.0  # Seconds for which a right password is not hashed again
MOST_REMEMBERED = 1000  # Passwords
MOST_WAITING = 8  # Checks that wait, or are made
MOST_OF_CLIENT = 2  # Of them, those of one address
PATIENCE_S = 5.0  # Seconds that a check waits for others


class TooManyGuesses(Exception):
    """Too many passwords are being checked: the client must try again later."""


class PasswordChecks:
    """The checks of one server."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()  # When each is forgotten, the oldest first
        self._waiting: dict[str, int] = {}  # Checks by the address of the client
        self._lock = threading.Lock()  # Never held while something waits
        self._hashing = threading.Lock()  # One at a time, so that guesses use only one CPU

    def admits(self, config: WebConfig, client: str, user: str, password: str) -> bool:
        """Whether it is the user's password in the present configuration. Raises TooManyGuesses."""
        if not user and not password:
            return False  # A request without credentials is no guess
        # The stored hash is a part of it: a password that was changed or removed is not remembered.
        parts = [user, config.basic_auth_users.get(user, ""), password]
        digest = hmac.digest(self._key, json.dumps(parts).encode(), hashlib.sha256)
        if self._remembers(digest):
            return True
        with self._take_turn(client):
            is_right = config.matches(user, password)
        if is_right:
            self._remember(digest)
        return is_right

    def _remembers(self, digest: bytes) -> bool:
        with self._lock:
            return self._right.get(digest, 0.0) > time.monotonic()

    def _remember(self, digest: bytes) -> None:
        with self._lock:
            self._right[digest] = time.monotonic() + REMEMBERED_S
            self._right.move_to_end(digest)
            while len(self._right) > MOST_REMEMBERED:
                self._right.popitem(last=False)

    @contextmanager
    def _take_turn(self, client: str) -> Iterator[None]:
        with self._lock:
            count = self._waiting.get(client, 0)
            if count >= MOST_OF_CLIENT or sum(self._waiting.values()) >= MOST_WAITING:
                raise TooManyGuesses
            self._waiting[client] = count + 1
        try:
            if not self._hashing.acquire(timeout=PATIENCE_S):
                raise TooManyGuesses
            try:
                yield
            finally:
                self._hashing.release()
        finally:
            with self._lock:
                self._waiting[client] -= 1
                if not self._waiting[client]:
                    del self._waiting[client]
