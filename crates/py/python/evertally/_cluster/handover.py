"""How workers get the key: over a separate connection, sealed, into their memory and nowhere else.

A query plan carries a *pass*: 32 random bytes of one run. A worker that proves that it has the pass agrees with the
driver on a cipher (X25519, so that a recorded connection cannot be decrypted later) and gets the key. The pass by
itself is worthless: only the driver hands over the key, and only while it runs. Nothing of the key is in a query plan,
a log, a broadcast, a file or the environment.
"""

from __future__ import annotations

import os
import secrets
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .._errors import EvertallyError
from .._evertally import SecretKey, _ask_for_key, _open_key, _seal_key

#: Bytes of the name of the run, of a worker's request after it, and of the sealed key: a public number, 24 random
#: bytes, the key's 32, and a tag of 16.
RUN, ASKED, SEALED = 16, 32, 104

#: Seconds that a worker waits for the driver, seconds that the driver waits for a worker's request, and the maximum
#: number of workers served at once.
PATIENCE, HASTE, MANY = 60.0, 5.0, 256


@dataclass(frozen=True)
class Pass:
    """The address at which the driver hands over the key of a run, and the secret that seals it."""

    host: str
    port: int
    run: str
    _seal: bytes = field(repr=False)
    #: The settings of the engine that name this address.
    settings: str

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
                f"this worker cannot reach the driver at {self.host}:{self.port} to get the key ({problem}); allow "
                f"workers to connect to that port{self.settings}, or put the key file on every worker and give its "
                "path as worker_key"
            ) from None
        return _open_key(self._seal, bytes(own), sealed)


@dataclass(frozen=True)
class KeyFile:
    """A key file on every worker, such as a secret that the cluster mounts."""

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

    allow_reuse_address = os.name == "posix"  # elsewhere it lets another program take the port
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.keys: dict[str, tuple[SecretKey, bytes]] = {}
        self.seats = threading.BoundedSemaphore(MANY)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handles a request in a thread; closes the connection if no place is free in time. The worker tries again."""
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
        """Ignores a worker that has disconnected."""


_desks: dict[tuple[str, int], _Desk] = {}
_lock = threading.Lock()


def hand_over(key: SecretKey, host: str, bind: str, port: int, settings: str = "") -> Pass:
    """Offers the key to the workers of a run."""
    with _lock:
        desk = _desks.get((bind, port))
        if desk is None:
            desk = _desks[bind, port] = _Desk(bind, port)
            threading.Thread(target=desk.serve_forever, name="evertally keys", daemon=True).start()
        run, seal = secrets.token_hex(16), secrets.token_bytes(32)
        desk.keys[run] = (key, seal)
        return Pass(host, int(desk.server_address[1]), run, seal, settings)
