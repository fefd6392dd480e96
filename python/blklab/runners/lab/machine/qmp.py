"""QEMU's own protocol (docs/interop/qmp-spec.txt): commands with their answers, and events."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from blklab.errors import BlklabError
from blklab.text import printable

PATIENCE: Final = 30.0  # Seconds that QEMU may take for an answer


class QmpConnection:
    """A connection to QEMU's monitor. A thread calls `heard` with each event."""

    def __init__(self, connected: socket.socket, heard: Callable[[Mapping[str, Any]], object]) -> None:
        self._socket = connected
        self._heard = heard
        self._calls = threading.Lock()
        self._answered = threading.Condition()
        self._answer: Mapping[str, Any] | None = None
        self._gone = False
        self._negotiated = False
        self._thread = threading.Thread(target=self._listen, name="blklab-qmp", daemon=True)
        self._thread.start()

    def call(self, command: str, **arguments: Any) -> Any:
        """Returns the answer to a command. Raises BlklabError with QEMU's message if it fails."""
        with self._calls:
            if not self._negotiated:
                self._exchange("qmp_capabilities", {})
                self._negotiated = True
            return self._exchange(command, arguments)

    def close(self) -> None:
        """Ends the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _exchange(self, command: str, arguments: Mapping[str, Any]) -> Any:
        request = json.dumps({"execute": command, "arguments": dict(arguments)}) + "\n"
        with self._answered:
            self._answer = None
        try:
            self._socket.sendall(request.encode())
        except OSError:
            raise BlklabError(f"QEMU has ended: cannot send {command}") from None
        with self._answered:
            if not self._answered.wait_for(lambda: self._answer or self._gone, PATIENCE):
                raise BlklabError(f"QEMU did not answer {command} within {PATIENCE:g} s")
            answer = self._taken()
        if answer is None:
            raise BlklabError(f"QEMU has ended: it did not answer {command}")
        if "error" in answer:
            error = answer["error"]
            reason = error.get("desc", "") if isinstance(error, dict) else error
            raise BlklabError(f"QEMU refused {command}: {printable(str(reason))}")
        return answer.get("return")

    def _taken(self) -> Mapping[str, Any] | None:
        return self._answer

    def _listen(self) -> None:
        with suppress(OSError, ValueError), self._socket.makefile("rb") as lines:
            for line in lines:
                message: object = json.loads(line)
                if not isinstance(message, dict):
                    break
                if "event" in message:
                    self._heard(message)
                elif "return" in message or "error" in message:
                    with self._answered:
                        self._answer = message
                        self._answered.notify_all()
        with self._answered:
            self._gone = True
            self._answered.notify_all()
