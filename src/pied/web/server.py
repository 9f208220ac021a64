"""Serve the dashboard by uvicorn."""

import socket
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


def _server(app: Guard) -> uvicorn.Server:
    return uvicorn.Server(
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
        )
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
