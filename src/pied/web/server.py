"""Serve the dashboard by uvicorn."""

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pied.errors import SettingError
from pied.shell.speech import INTERRUPTED
from pied.web.guard import Guard, Receive, Scope, Send, refuse
from pied.web.limits import MOST_CONNECTIONS, MOST_OF_CLIENT, SLOWEST_HEAD

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
STOPPING = 2
"""Seconds that open pages get when the server ends."""
LONGEST_END = 10.0
"""Seconds after which the process ends, whatever is still computed: what was told is stored."""
TURN = 0.0005
"""Seconds after which a thread that computes lets another one go on. With Python's own 0.005, a request that reads a
record of 2,000 trials beside a computation waits that long for each row."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket at an address; with port 0 at a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    own = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)  # Windows, where the other lets two servers share a port
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if own is None else own, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise SettingError(
            f"port {port} of {host} cannot be used ({error.strerror}): name another one, --port"
        ) from None
    made.listen(128)
    return made


class Connection(H11Protocol):
    """A connection that is closed when no request comes in time, or when its client has too many.

    A connection waits while no request is under way: the head is not complete, or the answer was given. That needs no
    token, so a newcomer takes the place of the one that waits longest.
    """

    waits_since = 0.0
    """Time of the loop; of a connection that waits."""
    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether no request is under way."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._begin()
        others = [
            each
            for each in self.connections
            if isinstance(each, Connection) and each is not self and not each.transport.is_closing()
            if each.client and self.client and each.client[0] == self.client[0]
        ]
        if len(others) >= MOST_OF_CLIENT:
            waiting = [each for each in others if each.waits]
            if waiting:
                min(waiting, key=lambda each: each.waits_since).transport.close()
            else:
                self.app = _crowded

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.waits:
            self._end()
        elif self._deadline is None:  # no byte after the first moves it
            self._begin()

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        if self.cycle.more_body:  # what was refused unread may come forever
            self._begin()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(SLOWEST_HEAD, self._give_up)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None

    def _give_up(self) -> None:
        if self.waits:
            self.transport.close()


async def _crowded(_: Scope, __: Receive, send: Send) -> None:
    said = f"this machine has {MOST_OF_CLIENT} connections here: close pages that are not needed, then send it again"
    await refuse(send, 503, said, connection="close")


class _Server(uvicorn.Server):
    """A server that ends the streams of open pages when it stops, which would be cut off, and closes the stores.

    Both happen here and not after `run`: uvicorn ends by sending the signal again, of which SIGTERM ends the process.
    """

    def __init__(self, config: uvicorn.Config, guard: Guard, *, is_all: bool) -> None:
        super().__init__(config)
        self._guard, self._is_all = guard, is_all

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._is_all:  # Python waits for its threads, and a proposal from thousands of trials takes minutes
            last = threading.Timer(LONGEST_END, os._exit, (INTERRUPTED,))
            last.daemon = True
            last.start()
        self._guard.on_end()
        try:
            await super().shutdown(sockets)
        finally:
            self._guard.close()


def _server(app: Guard, *, is_all: bool = False) -> uvicorn.Server:
    sys.setswitchinterval(TURN)
    return _Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=STOPPING,
            limit_concurrency=MOST_CONNECTIONS,
            http=Connection,
            ws="none",
        ),
        app,
        is_all=is_all,
    )


def serve(app: Guard, place: socket.socket) -> None:
    """Serve until the process is told to end."""
    _server(app, is_all=True).run(sockets=[place])


@contextmanager
def serving(app: Guard, place: socket.socket) -> Iterator[None]:
    """Serve in a thread while something else is done."""
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(STOPPING + 3)
