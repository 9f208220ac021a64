"""The commands `pied dashboard` and `pied mcp`."""

import os
import secrets
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from pied.errors import MissingExtra
from pied.shell.options import as_json
from pied.shell.speech import Mistake, note, say, say_json

TOKEN = "PIED_TOKEN"
"""Environment variable with the token, for instruments that must know it before the server starts."""
SHORTEST_TOKEN = 16
"""Characters of a token that is given."""


@click.command()
@click.argument("files", nargs=-1)
@click.option("--store", envvar="PIED_STORE", metavar="PLACE", help="Show the studies of this store: a file or a URL.")
@click.option("--port", type=click.IntRange(0, 65535), default=8766, show_default=True, help="0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Another one lets other machines in.")
@click.option("--read-only", is_flag=True, help="Nothing can be asked, told or changed.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@as_json
def dashboard(
    files: tuple[str, ...], store: str | None, port: int, host: str, read_only: bool, no_browser: bool, as_json: bool
) -> None:
    """Show studies in a browser: problem files, the studies of a store, or the problem files of this folder.

    The address that is printed has a token, without which nothing is answered; $PIED_TOKEN can name it. Programs send
    it as a header. The server stops with Ctrl-C.
    """
    check_installed()
    from pied.web.server import listening, serve

    place = listening(host, port)
    app, address = prepared(files, store, host, place.getsockname()[1], read_only)
    say_json({"address": address}) if as_json else say(f"The dashboard is at\n  {address}\nIt stops with Ctrl-C.")
    if not no_browser and not as_json:
        webbrowser.open(address)
    serve(app, place)


@click.command()
@click.argument("files", nargs=-1)
@click.option("--store", envvar="PIED_STORE", metavar="PLACE", help="The studies of this store: a file or a URL.")
@click.option("--write", is_flag=True, help="Let the assistant ask and tell; else it can only read.")
@click.option("--worker", default="assistant", show_default=True, help="Its name in the record.")
def mcp(files: tuple[str, ...], store: str | None, write: bool, worker: str) -> None:
    """Serve studies to an assistant by the Model Context Protocol, over standard input and output.

    Without FILES the problem files of this folder. Nothing can be changed without --write.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise MissingExtra("a server for assistants", "mcp", "mcp") from error
    from pied import __version__
    from pied.web.assistant import PURPOSE, tools
    from pied.web.shelf import Shelf

    server: Any = MCPServer("pied", instructions=PURPOSE, version=__version__, log_level="WARNING")
    shelf = Shelf(files, store=store, folder=Path.cwd())
    for tool in tools(shelf, ToolError, write=write, worker=worker):
        server.add_tool(tool, structured_output=False)
    try:
        server.run()
    finally:
        shelf.close()


def check_installed() -> None:
    """Say what to install where the packages of the server are missing."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtra("the dashboard", "starlette and uvicorn", "web")


def prepared(files: tuple[str, ...], store: str | None, host: str, port: int, read_only: bool) -> tuple[Any, str]:
    """Return the application and the address with its token; warn when other machines can reach it."""
    from pied.web.app import made
    from pied.web.server import LOOPBACK
    from pied.web.shelf import Shelf

    for file in files:
        path = file.rpartition(":")[0] if ".py:" in file else file
        if not Path(path).exists():
            raise Mistake(f"there is no problem file '{file}': begin with pied init, or leave it out")
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    if len(token) < SHORTEST_TOKEN or not token.replace("-", "").replace("_", "").isalnum():
        raise Mistake(f"${TOKEN} should have at least {SHORTEST_TOKEN} letters, digits, - or _")
    hosts = LOOPBACK if host in LOOPBACK else frozenset()
    if host not in LOOPBACK:
        note(
            f"Warning: other machines can reach this server at port {port}, and what is sent is not encrypted. Whoever "
            "has the address with its token can " + ("read the studies." if read_only else "change the studies.")
        )
    app = made(Shelf(files, store=store, folder=Path.cwd()), token=token, hosts=hosts, port=port, read_only=read_only)
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
    return app, f"http://{shown}:{port}/?token={token}"
