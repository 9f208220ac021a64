"""Serve the dashboard by uvicorn."""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from pied.errors import SettingError
from pied.web.guard import Guard

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
STOPPING = 2
"""Seconds that open pages get when the server ends."""
TURN = 0.0005
"""Seconds after which a thread that computes lets another one go on. With Python's own 0.005, a request that reads a
record of 2,000 trials beside a computation waits that long for each row."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket at an address; with port 0 at a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise SettingError(
            f"port {port} of {host} cannot be used ({error.strerror}): name another one, --port"
        ) from None
    made.listen(128)
    return made


class _Server(uvicorn.Server):
    """A server that ends the streams of open pages when it stops, which would be cut off, and closes the stores.

    Both happen here and not after `run`: uvicorn ends by sending the signal again, of which SIGTERM ends the process.
    """

    def __init__(self, config: uvicorn.Config, guard: Guard) -> None:
        super().__init__(config)
        self._guard = guard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._guard.on_end()
        try:
            await super().shutdown(sockets)
        finally:
            self._guard.close()


def _server(app: Guard) -> uvicorn.Server:
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
            limit_concurrency=1000,
            ws="none",
        ),
        app,
    )


def serve(app: Guard, place: socket.socket) -> None:
    """Serve until the process is told to end."""
    _server(app).run(sockets=[place])


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
