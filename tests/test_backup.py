"""A store can be copied: by `pied backup` at any time, and as a file because the log does not keep what was told."""

import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pied import Study
from pied.errors import StoreError
from pied.records.sql import Store
from pied.records.sqlite import SIDE_FILES
from shells import data, pied_
from tiny import parabola


def kept(file: Path) -> int:
    """How many told trials a copy of a file alone has."""
    alone = file.parent / "alone" / file.name
    alone.parent.mkdir(exist_ok=True)
    shutil.copy(file, alone)
    with Store.connect(alone, read_only=True) as base:
        return sum(row.state == "told" for about in base.studies() for row in base.record(about.name).changes(0)[1])


@pytest.fixture
def file(lab: Path) -> Path:
    """A store with three told trials of two studies."""
    with Study(parabola(), name="a", store=lab / "lab.db", seed=0) as study:
        study.add_all([({"x": 0.1}, {"y": 1.0}), ({"x": 0.2}, {"y": 2.0})])
    with Study(parabola(), name="b", store=lab / "lab.db", seed=0) as study:
        study.add({"x": 0.3}, {"y": 3.0})
    return lab / "lab.db"


def test_what_a_writer_told_is_in_the_file_alone_though_others_have_it_open(file: Path) -> None:
    with Study(parabola(), name="a", store=file, read_only=True) as reader:
        assert len(reader.trials) == 2
        with Study(parabola(), name="a", store=file) as writer:
            writer.add({"x": 0.4}, {"y": 4.0})
        assert kept(file) == 4
        assert len(reader.trials) == 3


def test_who_closes_a_store_waits_for_those_who_read_an_earlier_state(file: Path) -> None:
    reader = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    with closing(reader), Study(parabola(), name="a", store=file) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trials").fetchone()
        writer.add({"x": 0.4}, {"y": 4.0})
        end = threading.Timer(0.05, reader.execute, ("COMMIT",))
        end.start()
        writer.close()
        end.join()
        assert kept(file) == 4


def test_a_backup_has_all_studies_in_one_file_by_the_problem_file_or_the_store(file: Path) -> None:
    for number, place in enumerate(("lab.toml", "lab.db", f"sqlite:///{file}")):
        assert data("backup", place, f"copy-{number}.db") == {"copy": f"copy-{number}.db", "trials": {"a": 2, "b": 1}}
        assert kept(file.with_name(f"copy-{number}.db")) == 3
    assert "study 'a' with 2 trials" in pied_("backup", "lab.toml", "more.db").stdout
    assert sorted(each.name for each in file.parent.glob("*.db*")) == [
        "copy-0.db", "copy-1.db", "copy-2.db", "lab.db", "more.db",
    ]  # fmt: skip


def test_a_backup_of_a_store_that_is_being_written_is_a_moment_of_it(file: Path) -> None:
    ended = threading.Event()

    def write() -> None:
        with Study(parabola(), name="a", store=file) as study:
            for k in range(1, 1000):
                study.add_all([({"x": k / 2000}, {"y": k}), ({"x": 0.5 + k / 2000}, {"y": k})], again=True)
                if ended.is_set():
                    return

    with Study(parabola(), name="a", store=file, read_only=True) as reader:
        thread = threading.Thread(target=write)
        thread.start()
        try:
            for number in range(4):
                before = len(reader.trials)
                trials = data("backup", "lab.db", f"copy-{number}.db")["trials"]["a"]
                assert before <= trials <= len(reader.trials)
                assert trials % 2 == 0  # two are added in one transaction
        finally:
            ended.set()
            thread.join()


def test_a_backup_replaces_a_file_only_when_told_to(file: Path) -> None:
    copy = file.with_name("copy.db")
    copy.write_bytes(b"something else")
    assert "copy.db exists already and was not changed" in pied_("backup", "lab.toml", "copy.db", code=2).stderr
    assert copy.read_bytes() == b"something else"
    pied_("backup", "lab.toml", "copy.db", "--replace")
    assert kept(copy) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lab.db", "lab.db", "--replace"], "is the store itself: name another file"),
        (["lab.db", "alias.db", "--replace"], "is the store itself: name another file"),
        (["lab.db", "nowhere/copy.db"], "there is no folder"),
        (["lab.db", "."], "is a folder: name a file in it"),
        (["lab.db", "open.db"], "open.db-wal is there"),
        (["none.toml", "copy.db"], "there is no store at none.db"),
        (["lab.toml", "copy.db", "--store", "none.db"], "there is no store at none.db"),
    ],
)
def test_a_backup_that_cannot_be_made_says_why_and_leaves_nothing(file: Path, words: list[str], message: str) -> None:
    file.with_name("alias.db").symlink_to(file)
    file.with_name("open.db-wal").write_bytes(b"log")
    before = sorted(file.parent.iterdir())
    assert message in " ".join(pied_("backup", *words, code=(2, 3)).stderr.split())
    assert sorted(file.parent.iterdir()) == before


def test_a_damaged_store_is_not_copied_as_if_it_were_sound(file: Path) -> None:
    with sqlite3.connect(file) as base:
        page = base.execute("SELECT rootpage FROM sqlite_master WHERE name = 'values_by_trial'").fetchone()[0]
        size = base.execute("PRAGMA page_size").fetchone()[0]
    base.close()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    file.write_bytes(content)
    with Store.connect(file, read_only=True) as store, pytest.raises(StoreError, match="damaged"):
        store.backup(file.with_name("copy.db"))
    assert not list(file.parent.glob("copy.db*"))


def test_a_server_copies_itself(server: str, tmp_path: Path) -> None:
    with Store.connect(server) as base, pytest.raises(StoreError, match="pg_dump"):
        base.backup(tmp_path / "copy.db")


SERVER = "from pied.shell.main import main; main(['dashboard', 'lab.toml', '--port', '0', '--json', '--no-browser'])"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX")
@pytest.mark.parametrize("way", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_dashboard_leaves_all_that_was_told_in_the_file(lab: Path, way: str) -> None:
    pytest.importorskip("uvicorn")
    token = "a-token-of-these-tests"
    served = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env={**os.environ, "PIED_TOKEN": token}
    )  # fmt: skip
    try:
        assert served.stdout is not None
        address = json.loads("".join(served.stdout.readline() for _ in range(3)))["address"].partition("?")[0]

        def send(path: str, **body: Any) -> Any:
            head = {"X-Pied-Token": token, "Content-Type": "application/json"}
            content = json.dumps(body).encode() if body else None
            with urllib.request.urlopen(
                urllib.request.Request(f"{address}api/studies/lab{path}", content, head)
            ) as got:
                return json.load(got)

        for number in (1, 2, 3):
            send("/ask", worker="robot")
            send(f"/trials/{number}/tell", values={"product": 0.5, "impurity": 0.01}, worker="robot")
            assert len(send("/trials")) == number  # the page keeps the store open to look
        served.send_signal(signal.Signals[way])
        served.wait(60)
    finally:
        served.kill()
        served.wait()
    assert kept(lab / "lab.db") == 3
    if way != "SIGKILL":
        assert not [side for side in SIDE_FILES if (lab / f"lab.db{side}").exists()]


SLOW = """
import pathlib, time
import numpy
from pied import Problem

def value(x, y):
    if pathlib.Path("slowly").exists():
        pathlib.Path("began").touch()
        time.sleep(600)
    return numpy.array(y.y.tolist())  # which cannot be read off, so it is called

problem = Problem(variables={"x": (0, 1)}, outputs=["y"], maximize=value)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX")
def test_a_dashboard_ends_although_something_is_computed(lab: Path) -> None:
    pytest.importorskip("uvicorn")
    (lab / "plant.py").write_text(SLOW)
    script = SERVER.replace("lab.toml", "plant.py:problem", 1).replace("from", "import pied.web.server as s; from", 1)
    script = script.replace("main([", "s.LONGEST_END = 3.0; main([", 1)
    token = "a-token-of-these-tests"
    served = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "PIED_TOKEN": token}
    )  # fmt: skip
    try:
        assert served.stdout is not None
        address = json.loads("".join(served.stdout.readline() for _ in range(3)))["address"].partition("?")[0]
        head = {"X-Pied-Token": token, "Content-Type": "application/json"}

        def send(path: str, body: bytes) -> None:
            with suppress(OSError, http.client.HTTPException):
                urllib.request.urlopen(urllib.request.Request(f"{address}api/studies/plant/{path}", body, head)).close()

        send("ask", b"{}")
        (lab / "slowly").touch()
        threading.Thread(target=send, args=("trials/1/tell", b'{"values": {"y": 1.0}}'), daemon=True).start()
        while not (lab / "began").exists():
            time.sleep(0.05)
        served.send_signal(signal.SIGINT)
        assert served.wait(60) == 130
    finally:
        served.kill()
        served.wait()
