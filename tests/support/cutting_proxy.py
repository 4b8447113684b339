"""A TCP proxy before a PostgreSQL server that cuts a connection at a chosen message."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Lock, Thread


class CuttingProxy:
    """Passes messages on, until it is armed: then it cuts once a number of them went through."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._lock = Lock()
        self._direction = ""
        self._left = 0
        self.cuts = 0
        """Connections that were cut."""
        Thread(target=self._accept, daemon=True).start()

    def arm(self, direction: str, after: int) -> None:
        """Cut once: at the message of a direction (`to` or `from` the server) behind so many."""
        with self._lock:
            self._direction, self._left = direction, after

    def close(self) -> None:
        """Accept no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            back = Thread(target=self._pass, args=(server, client, "from"), daemon=True)
            back.start()
            self._pass(client, server, "to")
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        begins = direction == "to"
        with source.makefile("rb") as buffered, suppress(OSError, struct.error):
            while True:
                kind = b"" if begins else buffered.read(1)
                begins = False
                length = buffered.read(4)
                message = kind + length + buffered.read(struct.unpack("!I", length)[0] - 4)
                if self._cuts_at(direction):
                    break
                target.sendall(message)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _cuts_at(self, direction: str) -> bool:
        with self._lock:
            if self._direction != direction:
                return False
            if self._left:
                self._left -= 1
                return False
            self._direction = ""
            self.cuts += 1
            return True
