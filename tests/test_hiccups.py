"""Stores, disks and executors that are away for a while: nothing that was evaluated is lost, nothing fails wrongly."""

import json
import logging
import pickle
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from boxes import curve
from pied import ExecutorLost, Named, State, Status, StoreAway, StoreError, Study, Unwritten
from pied.evaluation import Crew, Processes
from pied.evaluation import crew as crew_module
from pied.records import journal, sqlite
from pied.records.journal import Entry, Patient, identity, keep, take_in
from pied.records.memory import Memory
from pied.records.plain import LONGEST_REASON, cleaned
from pied.records.record import About, Record
from pied.records.sql import Store
from tiny import parabola

ABOUT = About("a", {"variables": {"x": {}}, "outputs": ["y"]}, 1, {"name": "random"}, 5)


@pytest.fixture(autouse=True)
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience, and a folder of states that is not the user's."""
    monkeypatch.setattr(journal, "PATIENCE", 0.3)
    monkeypatch.setattr(journal, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(crew_module, "RESUBMIT_FOR", 0.3)
    monkeypatch.setattr(crew_module, "FIRST_PAUSE", 0.02)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Flaky:
    """A store whose transactions fail while it is away."""

    def __init__(self, file: Path) -> None:
        self.store = Store.connect(file)
        self.is_away: Callable[[bool], bool] = lambda write: False
        self.refused = 0
        begin = self.store._begin

        @contextmanager
        def flaky(*, write: bool) -> Iterator[Any]:
            if self.is_away(write):
                self.refused += 1
                raise StoreAway("the server is away")
            with begin(write=write) as tx:
                yield tx

        self.store._begin = flaky  # type: ignore[method-assign]


def study(store: Any, blackbox: Any = curve, **words: Any) -> Study:
    return Study(parabola(blackbox=blackbox), name="a", store=store, **words)


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.unwritten.jsonl"))


# ------------------------------------------------------------------------------------------------ the store of a run


def test_a_run_waits_for_a_store_that_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky(tmp_path / "a.db")
    study(flaky.store, seed=0, solver="random")
    calls: list[int] = []

    def blackbox(x: Named) -> float:
        calls.append(1)
        if len(calls) in (2, 4):
            back = flaky.refused + 3
            flaky.is_away = lambda write: flaky.refused < back
        return curve(x)

    found = study(flaky.store, blackbox)
    result = found.run(6)
    assert [trial.state for trial in result.trials] == [State.TOLD] * 6
    assert len(calls) == 6
    assert len(found.values) == 6
    assert sum("trying again" in record.message for record in caplog.records) >= 6
    assert kept(tmp_path) == []


def test_a_store_that_stays_away_costs_no_result(tmp_path: Path) -> None:
    flaky = Flaky(tmp_path / "a.db")
    study(flaky.store, seed=0, solver="random")
    calls: list[float] = []

    def blackbox(x: Named) -> float:
        calls.append(curve(x))
        if len(calls) == 3:
            flaky.is_away = lambda write: True
        return calls[-1]

    found = study(flaky.store, blackbox)
    with pytest.raises(Unwritten, match=r"trial 3: y = .* open the study again when the store is back") as raised:
        found.run(8)
    assert raised.value.results == {3: {"y": calls[2]}}
    assert repr(calls[2]) in str(raised.value)
    assert [str(file) for file in kept(tmp_path)] == list(raised.value.files)
    flaky.is_away = lambda write: False
    again = study(flaky.store)
    assert again.trials[2].y is not None
    assert again.trials[2].y.y == calls[2]
    assert kept(tmp_path) == []
    assert len(again.values) == 3


def test_what_others_evaluate_meanwhile_is_kept_too(tmp_path: Path) -> None:
    flaky = Flaky(tmp_path / "a.db")
    study(flaky.store, seed=0, solver="random")
    calls: list[float] = []
    gone = threading.Event()

    def blackbox(x: Named) -> float:
        place = len(calls)
        calls.append(curve(x))
        if place < 3:
            gone.wait(10.0)
            time.sleep(0.05 * place)
        if place == 3:
            flaky.is_away = lambda write: True
            gone.set()
            raise ValueError("no convergence")
        return curve(x)

    with pytest.raises(Unwritten, match="4 results could not be written") as raised:
        study(flaky.store, blackbox).run(12, workers=4)
    assert len(raised.value.results) == 3
    assert list(raised.value.failures.values()) == ["The black box raised ValueError: no convergence"]
    flaky.is_away = lambda write: False
    again = study(flaky.store)
    assert sorted(trial.state.value for trial in again.trials) == ["failed", "told", "told", "told"]
    assert {trial.y.y for trial in again.trials if trial.y is not None} <= set(calls)
    assert kept(tmp_path) == []


def test_a_run_of_the_same_study_object_takes_in_what_it_kept(tmp_path: Path) -> None:
    flaky = Flaky(tmp_path / "a.db")
    calls: list[int] = []

    def blackbox(x: Named) -> float:
        calls.append(1)
        flaky.is_away = lambda write: len(calls) == 2
        return curve(x)

    found = study(flaky.store, blackbox, seed=0, solver="random")
    with pytest.raises(Unwritten):
        found.run(4)
    flaky.is_away = lambda write: False
    result = found.run(2)
    assert [trial.state for trial in result.trials] == [State.TOLD] * 4
    assert len(calls) == 4


def test_a_result_whose_answer_got_lost_is_not_told_twice(tmp_path: Path) -> None:
    with Store.connect(tmp_path / "a.db") as store:
        record = store.create(ABOUT)
        patient = Patient(record)
        written = [record.take, record.tell, record.fail]

        def lose_once(call: Callable[..., Any]) -> Callable[..., Any]:
            told: list[int] = []

            def losing(*words: Any, **named: Any) -> Any:
                answer = call(*words, **named)
                if not told:
                    told.append(1)
                    raise StoreAway("the connection was lost")
                return answer

            return losing

        record.take, record.tell, record.fail = map(lose_once, written)  # type: ignore[method-assign]
        taken = patient.take(1, {"x": 0.5}, worker="w", lease=60.0)
        assert taken is not None
        assert patient.tell(1, {"y": 2.0}).state == "told"
        assert patient.take(2, {"x": 0.5}, worker="w") is not None
        assert patient.fail(2, "pump").state == "failed"
        assert [value.counts for value in record.values()] == [True]
        assert [row.number for row in record.changes(0)[1]] == [1, 2]


def test_a_full_disk_in_a_run_costs_no_result(tmp_path: Path) -> None:
    """Eight evaluations are made; the file may not grow any more after some of them."""
    file = tmp_path / "a.db"
    store = Store.connect(file)
    calls: list[float] = []

    def blackbox(x: Named) -> dict[str, float]:
        calls.append(curve(x))
        return {"y": calls[-1]}

    found = study(store, blackbox, seed=0, solver="random")
    connect = sqlite.connect

    def limited(*words: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*words, **named)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 1}")
        return connection

    store.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "connect", limited)
        with pytest.raises((Unwritten, StoreAway), match="is full"):
            found.run(400)
        store.close()
    with study(file) as again:
        values = [trial.y.y for trial in again.trials if trial.y is not None]
        assert sorted(values) == sorted(calls)
    assert kept(tmp_path) == []


def test_ctrl_c_while_the_store_is_away_keeps_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flaky = Flaky(tmp_path / "a.db")

    def blackbox(x: Named) -> float:
        flaky.is_away = lambda write: True
        return curve(x)

    def interrupted(seconds: float) -> None:
        flaky.is_away = lambda write: False
        raise KeyboardInterrupt

    found = study(flaky.store, blackbox, seed=0, solver="random")
    monkeypatch.setattr(journal.time, "sleep", interrupted)
    assert found.run(4).status is Status.INTERRUPTED
    monkeypatch.undo()
    assert len(kept(tmp_path)) == 1
    assert study(flaky.store).trials[0].state is State.TOLD


def test_a_mistake_is_not_tried_again(tmp_path: Path) -> None:
    study(tmp_path / "a.db", seed=0, solver="random").close()
    with Study(parabola(), name="a", store=tmp_path / "a.db", read_only=True) as reader:
        began = time.monotonic()
        with pytest.raises(StoreError, match="opened to be read only"):
            reader.run(3)
        assert time.monotonic() - began < 30.0


# ------------------------------------------------------------------------------------------------------- the journal


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    with Store.connect(tmp_path / "a.db") as store:
        made = store.create(ABOUT)
        for number in (1, 2, 3):
            made.take(number, {"x": 0.5}, worker="w")
        yield made


def test_a_journal_is_taken_in_once(record: Record, tmp_path: Path) -> None:
    keep(record, Entry(1, {"y": 0.1}))
    keep(record, Entry(2, failure="pump"))
    record.tell(3, {"y": 0.3})
    keep(record, Entry(3, {"y": 0.3}))
    copies = {file: file.read_text() for file in kept(tmp_path)}
    assert take_in(record) == 3
    assert take_in(record) == 0
    for file, text in copies.items():
        file.write_text(text)  # as if its removal had been undone
    take_in(record)
    rows = record.changes(0)[1]
    assert [(row.state, dict(row.y), row.reason) for row in rows] == [
        ("told", {"y": 0.1}, ""),
        ("failed", {}, "pump"),
        ("told", {"y": 0.3}, ""),
    ]
    assert [(value.number, value.counts) for value in record.values()] == [(3, True), (1, True)]


def test_a_value_that_contradicts_the_record_is_kept_without_counting(record: Record) -> None:
    record.tell(1, {"y": 0.5})
    keep(record, Entry(1, {"y": 0.75}))
    take_in(record)
    assert [(value.value, value.counts) for value in record.values()] == [(0.5, True), (0.75, False)]


def test_a_study_made_anew_under_the_same_name_takes_nothing_in(record: Record, tmp_path: Path) -> None:
    keep(record, Entry(1, {"y": 0.1}))
    record.close()
    (tmp_path / "a.db").unlink()
    with Store.connect(tmp_path / "a.db") as store:
        other = store.create(ABOUT)
        other.take(1, {"x": 0.5})
        assert identity(other) != identity(record)
        assert take_in(other) == 0
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"trial": 1}', "[" * 10000, '{"trial": "1", "values": {"y": 1}}'])
def test_a_damaged_last_line_is_passed_over_and_a_damaged_file_stays(
    record: Record, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep(record, Entry(1, {"y": 0.1}))
    (file,) = kept(tmp_path)
    whole = file.read_text()
    file.write_text(damage)
    take_in(record)
    assert record.changes(0)[1][0].state == "asked"
    file.write_text(whole + damage)
    assert take_in(record) == 1
    assert kept(tmp_path) == []
    assert not damage or any("cannot be read" in each.message for each in caplog.records)


@pytest.mark.parametrize("values", [{"y": "one"}, {"y": None}, {}, 3, {"y": [1]}])
def test_hostile_values_in_a_journal_are_refused(record: Record, tmp_path: Path, values: Any) -> None:
    keep(record, Entry(1, {"y": 0.1}))
    (file,) = kept(tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), "values": values}))
    take_in(record)
    assert record.changes(0)[1][0].state == "asked"
    assert file.exists()


def test_a_result_goes_to_the_folder_of_states_when_the_stores_folder_is_full(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = journal._write

    def full(file: Path, line: str) -> None:
        if file.parent == tmp_path:
            raise OSError(28, "No space left on device")
        write(file, line)

    monkeypatch.setattr(journal, "_write", full)
    file = keep(record, Entry(1, {"y": 0.1}))
    assert file is not None
    assert Path(file).parent == tmp_path / "state" / "pied"
    assert take_in(record) == 1
    assert not Path(file).exists()


def test_a_result_that_can_be_kept_nowhere_is_in_log_and_message(
    record: Record, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: Path, line: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "_write", full)
    with caplog.at_level(logging.ERROR):
        assert keep(record, Entry(1, {"y": 0.125})) is None
    assert "y = 0.125" in caplog.text


def test_unwritten_results_survive_the_way_between_processes() -> None:
    error = Unwritten("gone", {1: {"y": 2.0}}, {2: "pump"}, ["a"])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.results, again.failures, again.files) == ("gone", {1: {"y": 2.0}}, {2: "pump"}, ("a",))


# -------------------------------------------------------------------------------------------------------------- locks


def test_a_writer_that_gave_up_leaves_its_connection_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "queue", lambda attempt: attempt())
    one, two = (sqlite.connect(tmp_path / "a.db", read_only=False) for _ in range(2))
    sqlite.begin(one, write=True)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite.begin(two, write=True)
    assert two.execute("PRAGMA busy_timeout").fetchone()[0] == sqlite.LOCK_WAIT * 1000
    one.close()
    two.close()


def test_a_study_that_is_refused_closes_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path / "a.db", seed=0, solver="random").close()
    closed: list[Store] = []
    monkeypatch.setattr(Store, "close", lambda self: closed.append(self))
    with pytest.raises(ValueError, match="has data of other variables"):
        Study(parabola(variables={"x": (0.0, 9.0)}), name="a", store=tmp_path / "a.db")
    assert len(closed) == 1


# ---------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    "text", ["lone \ud800 surrogate", "NUL \0 here", "\0" * 5, "x" * 50_000_000, "ü" * 10_000, "", "plain"]
)
def test_a_reason_can_be_kept_by_every_store(text: str, tmp_path: Path) -> None:
    found = cleaned(text)
    assert len(found) <= 6 * LONGEST_REASON
    assert "\0" not in found
    found.encode("utf-8")
    with Store.connect(tmp_path / "a.db") as store:
        for record in (store.create(ABOUT), Memory(ABOUT)):
            record.take(1, {"x": 0.5})
            assert record.fail(1, text).reason == found
            assert record.changes(0)[1][0].reason == found


def test_a_long_reason_keeps_its_beginning_and_its_end() -> None:
    found = cleaned("begin " + "x" * 1_000_000 + " end")
    assert found.startswith("begin ")
    assert found.endswith(" end")
    assert "characters left out" in found
    assert len(found) <= LONGEST_REASON


class Silent(Exception):
    """Raises when it is shown."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (SystemExit(3), r"The black box called sys.exit\(3\)"),
        (SystemExit("no licence"), r"sys.exit\(no licence\)"),
        (GeneratorExit(), "raised GeneratorExit"),
        (ValueError("a \ud800 b\0"), r"raised ValueError: a \\ud800 b\\0"),
        (Silent(), r"raised Silent: \(its text cannot be shown: RuntimeError\)"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_whatever_a_black_box_raises_is_a_failed_trial(
    raised: BaseException, says: str, workers: int, tmp_path: Path
) -> None:
    calls: list[int] = []

    def blackbox(x: Named) -> float:
        calls.append(1)
        if len(calls) == 2:
            raise raised
        return curve(x)

    with study(tmp_path / "a.db", blackbox, seed=0, solver="random", worker="w") as found:
        result = found.run(4, workers=workers)
        failed = [trial for trial in result.trials if trial.state is State.FAILED]
        assert len(failed) == 1
        assert len(result.trials) == 4
    with study(tmp_path / "a.db") as again:
        (reason,) = [trial.reason for trial in again.trials if trial.state is State.FAILED]
        assert re.search(says, reason)


# ---------------------------------------------------------------------------------------------------------- executors


class Restarting(Executor):
    """An executor that loses what is under way, a few times."""

    def __init__(self, losses: int, how: str) -> None:
        self.losses, self.how = losses, how
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        self.submitted += 1
        future: Future[Any] = Future()
        if self.losses > 0:
            self.losses -= 1
            if self.how == "closed":
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self.how == "cancelled":
                future.cancel()
                future.set_running_or_notify_cancel()
            else:
                kind = {"connection": ConnectionError, "dask": ClosedClientError}[self.how]
                future.set_exception(kind("the scheduler is gone"))
            return future
        future.set_result(fn(*args, **words))
        return future


class ClosedClientError(Exception):
    """As Dask raises it."""

    __module__ = "distributed.client"


LOST = ["closed", "cancelled", "connection", "dask"]


@pytest.mark.parametrize("how", LOST)
def test_an_executor_that_restarts_fails_no_trial(how: str) -> None:
    executor = Restarting(3, how)
    result = Study(parabola(blackbox=curve), seed=0, solver="random").run(4, executor=executor, workers=2)
    assert [trial.state for trial in result.trials] == [State.TOLD] * 4
    assert executor.submitted == 7


@pytest.mark.parametrize("how", LOST)
def test_an_executor_that_stays_away_leaves_its_trials_pending(how: str, tmp_path: Path) -> None:
    with study(tmp_path / "a.db", seed=0, solver="random", worker="w") as found:
        with pytest.raises(ExecutorLost, match="it stays pending, and nothing has failed"):
            found.run(4, executor=Restarting(10**9, how), workers=2)
        assert {trial.state for trial in found.trials} == {State.ASKED}
        result = found.run(4 - found.used)
        assert [trial.state for trial in result.trials] == [State.TOLD] * 4


def test_answers_that_cannot_be_sent_are_the_black_boxs_failure() -> None:
    class Unpicklable(Executor):
        def submit(self, fn: Any, /, *args: Any, **words: Any) -> "Future[Any]":
            future: Future[Any] = Future()
            future.set_exception(pickle.PicklingError("cannot pickle"))
            return future

    with Crew(curve, executor=Unpicklable()) as crew:
        crew.submit(1, {"x": 0.5})
        outcome = crew.wait()
    assert outcome is not None
    assert outcome.failure is not None
    assert "PicklingError" in outcome.failure


@pytest.mark.slow
def test_a_process_is_idle_or_busy_and_stopping_an_old_evaluation_kills_no_other() -> None:
    with Processes() as executor:
        first = executor.submit(pow, 2, 3)
        assert first.result(60.0) == 8
        assert len(executor._idle) == 1
        assert executor._busy == {}
        second = executor.submit(time.sleep, 0.2)
        assert executor.stop(first)
        assert second.exception(60.0) is None
        third = executor.submit(time.sleep, 60.0)
        assert executor.stop(third)
        assert third.exception(60.0) is not None
        assert executor._idle == []
        assert executor.submit(pow, 2, 4).result(60.0) == 16


def test_no_worker_is_seen_idle_and_busy_at_once() -> None:
    """Whoever looks while a worker changes sides sees it on one side: they change under one lock."""
    executor = Processes()

    class Fake:
        is_killed = False

        def wait_until_ready(self) -> None: ...

        def do(self, *words: Any) -> tuple[bool, Any]:
            return True, 1

        def kill(self) -> None:
            self.is_killed = True

    seen: list[int] = []

    class Watched(list):  # type: ignore[type-arg]
        def append(self, worker: Any) -> None:
            seen.append(sum(each is worker for each in executor._busy.values()))
            super().append(worker)

    executor._idle = Watched([Fake()])  # type: ignore[list-item]
    assert executor.submit(pow, 2, 3).result(5.0) == 1
    assert seen == [0]


def test_a_system_exit_does_not_end_the_interpreter() -> None:
    def blackbox(x: Named) -> float:
        sys.exit(7)

    result = Study(parabola(blackbox=blackbox), seed=0, solver="random").run(2)
    assert [trial.reason for trial in result.trials] == ["The black box called sys.exit(7)"] * 2
