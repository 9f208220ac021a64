"""Readers leave nothing behind and need no permission to write; the owner is never locked out."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pied import StoreError, Study
from pied.records.record import About
from pied.records.sql import Store
from pied.records.sqlite import Image, connect, image
from tiny import parabola

STATEMENT = {"variables": {"x": {"lo": 0.0, "hi": 1.0}}, "outputs": ["y"]}
GUEST = 65534
"""The user 'nobody': anyone but the owner."""
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def write(store: Store, numbers: range) -> None:
    record = store.find("a") or store.create(About("a", STATEMENT, 1, {"name": "random"}, 5))
    for number in numbers:
        record.take(number, {"x": 0.5})
        record.tell(number, {"y": float(number)})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that everyone may write to, with a store that was closed properly."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with Store.connect(shared / "lab.db") as store:
        write(store, range(1, 4))
    for path in [shared, *shared.parents]:  # pytest's folders are closed to others
        if path.stat().st_mode & 0o055 != 0o055:
            path.chmod(path.stat().st_mode | 0o055)
    shared.chmod(0o777)
    yield shared
    shared.chmod(0o777)


LOOK = """
import os, sys
os.setgroups([]) if os.geteuid() == 0 else None
from pied.records.sql import Store
if os.geteuid() == 0:
    os.setegid({guest}); os.seteuid({guest})
with Store.connect({file!r}, read_only=True) as store:
    print(len(store.record("a").changes(0)[1]), flush=True)
    sys.stdin.readline()
    print(len(store.record("a").changes(0)[1]), flush=True)
"""


def guest(file: Path) -> "subprocess.Popen[str]":
    """Someone else who reads, looks once, waits for a line, and looks again."""
    code = LOOK.format(guest=GUEST, file=str(file))
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="only root can become someone else")
@pytest.mark.parametrize("mode", [0o777, 0o755], ids=["shared", "not writable"])
def test_a_reader_of_another_user_leaves_nothing_and_the_owner_writes_meanwhile(folder: Path, mode: int) -> None:
    (folder / "lab.db").chmod(0o666)
    folder.chmod(mode)
    reader = guest(folder / "lab.db")
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "3\n"
    assert names(folder) == ["lab.db"]
    with Store.connect(folder / "lab.db") as owner:
        write(owner, range(4, 6))
        assert {path.stat().st_uid for path in folder.iterdir()} == {os.geteuid()}
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "5\n"
    assert reader.wait(30) == 0
    reader.stdin.close()
    reader.stdout.close()
    assert names(folder) == ["lab.db"]


def test_an_image_has_everything_and_leaves_nothing(folder: Path) -> None:
    found = image(folder / "lab.db")
    assert found.execute("SELECT count(*) FROM trials").fetchone() == (3,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        found.execute("DELETE FROM trials")
    found.close()
    assert names(folder) == ["lab.db"]


def test_an_image_has_what_is_only_in_the_log_yet(folder: Path) -> None:
    with Store.connect(folder / "lab.db") as owner:
        write(owner, range(4, 6))
        before = names(folder)
        assert "lab.db-wal" in before
        found = image(folder / "lab.db")
        assert found.execute("SELECT count(*) FROM trials").fetchone() == (5,)
        assert names(folder) == before
        assert found.is_stale()  # so young a file may change within one tick of its clock
        found.close()


def test_an_image_reads_what_a_killed_owner_left(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    with Store.connect(folder / "lab.db") as owner:
        write(owner, range(4, 6))
        for name in ("lab.db", "lab.db-wal"):
            shutil.copy(folder / name, copy / name)
    found = image(copy / "lab.db")
    assert found.execute("SELECT count(*) FROM trials").fetchone() == (5,)
    found.close()
    assert names(copy) == ["lab.db", "lab.db-wal"]


def test_an_old_image_is_renewed_when_the_file_changes(folder: Path) -> None:
    file = folder / "lab.db"
    os.utime(file, (1e9, 1e9))
    found = image(file)
    assert not found.is_stale()
    with Store.connect(file) as owner:
        write(owner, range(4, 5))
        assert found.is_stale()
    found.close()


def test_guests_of_one_store_follow_its_owner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pied.records.sqlite.is_guest", lambda file: True)
    with Store.connect(folder / "lab.db", read_only=True) as reader, Store.connect(folder / "lab.db") as owner:
        for last in range(4, 9):
            write(owner, range(last, last + 1))
            assert [row.number for row in reader.record("a").changes(0)[1]] == list(range(1, last + 1))
        with pytest.raises(StoreError, match="opened to be read only"):
            write(reader, range(9, 10))


def test_a_reader_of_ones_own_file_sees_it_live_and_leaves_nothing(folder: Path) -> None:
    file = folder / "lab.db"
    found = connect(file, read_only=True)
    assert not isinstance(found, Image)
    assert found.execute("SELECT count(*) FROM trials").fetchone() == (3,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        found.execute("DELETE FROM trials")
    found.close()
    assert names(folder) == ["lab.db"]


# ------------------------------------------------------------------------------------------------------------- mode=ro


@pytest.mark.parametrize("address", ["sqlite:///{}?mode=ro", "{}?mode=ro", "sqlite:///file:{}?mode=ro&uri=true"])
def test_an_address_that_asks_for_reading_is_only_read(folder: Path, address: str) -> None:
    file = folder / "lab.db"
    before = file.read_bytes()
    with Store.connect(address.format(file)) as store:
        assert store.is_read_only
        with pytest.raises(StoreError, match="opened to be read only"):
            store.create(About("b", STATEMENT, 1, {"name": "random"}, 5))
        assert len(store.record("a").changes(0)[1]) == 3
    assert file.read_bytes() == before
    assert names(folder) == ["lab.db"]


def test_a_study_on_an_address_for_reading_cannot_be_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with pytest.raises(StoreError, match="there is no store"):
        Study(parabola(), name="a", store=f"{url}?mode=ro")
    Study(parabola(), name="a", store=url, seed=0, solver="random").close()
    with Study(parabola(), name="a", store=f"{url}?mode=ro") as study, pytest.raises(StoreError, match="read only"):
        study.ask()
    with pytest.raises(StoreError, match="mode=memory is not supported"):
        Store.connect(f"{url}?mode=memory")
