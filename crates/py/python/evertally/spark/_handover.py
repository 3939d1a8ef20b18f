"""How the key comes to the workers: over a connection of its own, sealed, into their memory and nowhere else.

A plan carries a *pass*: 32 random bytes of one run, with which the driver seals the key for whoever asks. The pass by
itself is worth nothing: the key is had only from the driver, and only while that runs. Nothing of the key is in a plan,
a log, a broadcast, a file or the environment.
"""

from __future__ import annotations

import os
import secrets
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from typing import Any

from .._errors import EvertallyError
from .._evertally import SecretKey, _open_key, _seal_key

#: Bytes that a worker sends, and of the sealed key: 24 chosen at random, 32 of the key, 16 that vouch for it.
ASKED, SEALED = 32, 72

#: Seconds that a worker waits for the driver.
PATIENCE = 60.0


@dataclass(frozen=True)
class Pass:
    """Where the key of a run is handed over, and what seals it."""

    host: str
    port: int
    run: str
    _seal: bytes = field(repr=False)

    def fetch(self) -> SecretKey:
        """The key, from the driver."""
        asked = os.urandom(ASKED)
        try:
            with socket.create_connection((self.host, self.port), PATIENCE) as connection:
                connection.sendall(bytes.fromhex(self.run) + asked)
                sealed = b""
                while len(sealed) < SEALED and (part := connection.recv(SEALED - len(sealed))):
                    sealed += part
        except OSError as problem:
            raise EvertallyError(
                f"this worker cannot reach the driver at {self.host}:{self.port} for the key ({problem}); let workers "
                f"connect to that port (spark.driver.host, spark.evertally.keyPort), or lay the key's file on every worker "
                f"and name it with worker_key"
            ) from None
        return _open_key(self._seal, asked, sealed)


@dataclass(frozen=True)
class KeyFile:
    """A key that lies on every worker, as a secret that the cluster has mounted."""

    path: str

    def fetch(self) -> SecretKey:
        return SecretKey.load(self.path)


class _Handler(socketserver.BaseRequestHandler):
    server: _Desk

    def handle(self) -> None:
        self.request.settimeout(PATIENCE)
        wanted = ASKED + 16
        asked = b""
        while len(asked) < wanted and (part := self.request.recv(wanted - len(asked))):
            asked += part
        known = self.server.keys.get(asked[:16].hex())
        if known is not None and len(asked) == wanted:
            key, seal = known
            self.request.sendall(_seal_key(key, seal, asked[16:], os.urandom(24)))


class _Desk(socketserver.ThreadingTCPServer):
    """Seals keys for workers, as long as the driver runs."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.keys: dict[str, tuple[SecretKey, bytes]] = {}

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
