"""How the key comes to the workers: over a connection of its own, sealed, into their memory and nowhere else.

A plan carries a *pass*: 32 random bytes of one run. Whoever shows that they have it agrees with the driver on a cipher
(X25519, so that what was recorded cannot be opened later) and gets the key. The pass by itself is worth nothing: the key
is had only from the driver, and only while that runs. Nothing of the key is in a plan,
a log, a broadcast, a file or the environment.
"""

from __future__ import annotations

import secrets
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .._errors import EvertallyError
from .._evertally import SecretKey, _ask_for_key, _open_key, _seal_key

#: Bytes that a worker sends behind the name of the run, and of the sealed key: a public number, 24 chosen at random, the
#: key's 32, and 16 that vouch for it.
RUN, ASKED, SEALED = 16, 32, 104

#: Seconds that a worker waits for the driver, and the driver for what it has to send; of so many at once.
PATIENCE, HASTE, MANY = 60.0, 5.0, 256


@dataclass(frozen=True)
class Pass:
    """Where the key of a run is handed over, and what seals it."""

    host: str
    port: int
    run: str
    _seal: bytes = field(repr=False)

    def fetch(self) -> SecretKey:
        """The key, from the driver."""
        own, asked = _ask_for_key()
        try:
            with socket.create_connection((self.host, self.port), PATIENCE) as connection:
                connection.sendall(bytes.fromhex(self.run) + bytes(asked))
                sealed = b""
                while len(sealed) < SEALED and (part := connection.recv(SEALED - len(sealed))):
                    sealed += part
        except OSError as problem:
            raise EvertallyError(
                f"this worker cannot reach the driver at {self.host}:{self.port} for the key ({problem}); let workers "
                f"connect to that port (spark.driver.host, spark.evertally.keyPort), or lay the key's file on every worker "
                f"and name it with worker_key"
            ) from None
        return _open_key(self._seal, bytes(own), sealed)


@dataclass(frozen=True)
class KeyFile:
    """A key that lies on every worker, as a secret that the cluster has mounted."""

    path: str

    def fetch(self) -> SecretKey:
        return SecretKey.load(self.path)


class _Handler(socketserver.BaseRequestHandler):
    server: _Desk

    def handle(self) -> None:
        asked, end = b"", time.monotonic() + HASTE
        while len(asked) < RUN + ASKED and (left := end - time.monotonic()) > 0:
            self.request.settimeout(left)
            part = self.request.recv(RUN + ASKED - len(asked))
            if not part:
                return
            asked += part
        known = self.server.keys.get(asked[:RUN].hex())
        if known is not None and len(asked) == RUN + ASKED:
            key, seal = known
            self.request.sendall(_seal_key(key, seal, asked[RUN:]))


class _Desk(socketserver.ThreadingTCPServer):
    """Seals keys for workers, as long as the driver runs."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.keys: dict[str, tuple[SecretKey, bytes]] = {}
        self.seats = threading.BoundedSemaphore(MANY)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread; who finds no seat within a moment is sent away, and comes again."""
        if self.seats.acquire(timeout=HASTE):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that has gone is nobody's problem."""


_desks: dict[tuple[str, int], _Desk] = {}
_lock = threading.Lock()


def hand_over(key: SecretKey, host: str, bind: str, port: int) -> Pass:
    """Has the key ready for the workers of a run."""
    with _lock:
        desk = _desks.get((bind, port))
        if desk is None:
            desk = _desks[bind, port] = _Desk(bind, port)
            threading.Thread(target=desk.serve_forever, name="evertally keys", daemon=True).start()
        run, seal = secrets.token_hex(16), secrets.token_bytes(32)
        desk.keys[run] = (key, seal)
        return Pass(host, int(desk.server_address[1]), run, seal)
