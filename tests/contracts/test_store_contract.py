"""What every record promises, in memory, in a SQLite file and on a PostgreSQL server."""

import math
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pied import TellError
from pied.records import correct, former_names, history
from pied.records.memory import Memory
from pied.records.record import About, Record
from pied.records.sql import Store

STATEMENT: dict[str, Any] = {"variables": {"x": {"lo": 0.0, "hi": 1.0}}, "outputs": ["p", "q"], "constants": {"c": 1.0}}
ODD = [math.nan, math.inf, -math.inf, 1e308, -0.0, 0.0, 5e-324, 0.1, 1 / 3, 2.0**53 + 2, 1.7976931348623157e308]


@dataclass
class Clock:
    """A clock that goes when it is told to."""

    now: float = 1.7e9

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    """Where records of one kind are made and opened again."""

    make: Callable[[str, Clock], Record]
    again: Callable[[Record], Record]
    clock: Clock = field(default_factory=Clock)

    def record(self, name: str = "") -> Record:
        return self.make(name or uuid.uuid4().hex, self.clock)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    def about(name: str) -> About:
        return About(name, STATEMENT, 2**40 + 1, {"name": "random"}, 5)

    if request.param == "memory":
        yield Place(lambda name, clock: Memory(about(name), clock), lambda record: record)
        return
    url = f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("server")
    opened: list[Store] = []

    def store(clock: Clock) -> Store:
        opened.append(Store.connect(url, clock=clock))
        return opened[-1]

    clock = Clock()
    yield Place(
        lambda name, clock: store(clock).create(about(name)),
        lambda record: store(clock).record(record.about.name),
        clock,
    )
    for each in opened:
        each.close()


def test_a_number_is_taken_once_and_in_order(place: Place) -> None:
    record = place.record()
    assert record.take(1, {"x": 0.5}, worker="a") is not None
    assert record.take(1, {"x": 0.6}, worker="b") is None
    assert record.take(3, {"x": 0.6}, worker="b") is None
    assert record.take(2, {"x": 0.6}, worker="b") is not None
    rows = place.again(record).changes(0)[1]
    assert [(row.number, row.x, row.worker, row.state) for row in rows] == [
        (1, {"x": 0.5}, "a", "asked"),
        (2, {"x": 0.6}, "b", "asked"),
    ]


def test_a_worker_gets_no_more_open_trials_than_it_wants(place: Place) -> None:
    record = place.record()
    assert record.take(1, {"x": 0.5}, worker="a", most=1) is not None
    assert place.again(record).take(2, {"x": 0.6}, worker="a", most=1) is None
    assert record.take(2, {"x": 0.6}, worker="b", most=1) is not None
    assert record.take(3, {"x": 0.7}, worker="a", most=2) is not None
    record.tell(1, {"p": 1.0})
    assert record.take(4, {"x": 0.8}, worker="a", most=2) is not None
    assert [row.number for row in record.changes(0)[1]] == [1, 2, 3, 4]


def test_values_are_told_in_parts_and_never_overwritten(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    assert record.tell(1, {"p": 1.0}).state == "partial"
    assert record.tell(1, {"p": 1.0}).state == "partial"
    with pytest.raises(TellError, match=r"'p' was told as 1\.0 and cannot become 2\.0; the first value is kept"):
        record.tell(1, {"p": 2.0}, worker="late")
    row = record.tell(1, {"q": 3.0})
    assert (row.state, row.y) == ("told", {"p": 1.0, "q": 3.0})
    again = place.again(record)
    assert again.changes(0)[1][0].y == {"p": 1.0, "q": 3.0}
    kept = [(value.output, value.value, value.counts, value.worker) for value in again.values()]
    assert kept == [
        ("p", 1.0, True, ""),
        ("p", 1.0, False, ""),
        ("p", 2.0, False, "late"),
        ("q", 3.0, True, ""),
    ]


def test_a_result_told_after_a_failure_is_refused_and_kept(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    assert record.fail(1, "pump tripped").reason == "pump tripped"
    with pytest.raises(TellError, match=r"trial 1 was marked as failed \('pump tripped'\)"):
        record.tell(1, {"p": 1.0, "q": 2.0})
    row = place.again(record).changes(0)[1][0]
    assert (row.state, row.y, row.reason) == ("failed", {}, "pump tripped")
    assert [value.value for value in record.values()] == [1.0, 2.0]


def test_what_is_not_there_cannot_be_told_and_what_was_told_cannot_fail(place: Place) -> None:
    record = place.record()
    with pytest.raises(TellError, match="there is no trial 1; the record has trials 1 to 0"):
        record.tell(1, {"p": 1.0})
    record.add(lambda _: [({"x": 0.5}, {"p": 1.0})])
    with pytest.raises(TellError, match="trial 1 has been told already and cannot fail"):
        record.fail(1, "no")
    assert record.changes(0)[1][0].state == "partial"


def test_old_data_take_the_next_number(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    (row,) = record.add(lambda _: [({"x": 0.25}, {"p": 1.0, "q": 2.0})])
    assert (row.number, row.state, row.is_added) == (2, "told", True)
    assert record.take(2, {"x": 0.5}) is None


def test_who_adds_sees_what_others_have_added_meanwhile(place: Place) -> None:
    record = place.record()
    known, _ = record.changes(0)
    other = place.again(record)
    other.add(lambda _: [({"x": 0.1}, {"p": 1.0}), ({"x": 0.2}, {"p": 2.0})])
    wanted = [({"x": 0.2}, {"p": 2.0}), ({"x": 0.3}, {"p": 3.0})]
    new = record.add(
        lambda changed: [each for each in wanted if each[0] not in [row.x for row in changed]], since=known
    )
    assert [(row.number, row.x) for row in new] == [(3, {"x": 0.3})]
    assert [row.y for row in other.changes(0)[1]] == [{"p": 1.0}, {"p": 2.0}, {"p": 3.0}]


def test_a_refusal_among_added_rows_adds_none(place: Place) -> None:
    record = place.record()

    def choose(_: object) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
        yield {"x": 0.1}, {"p": 1.0}
        raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        record.add(choose)
    assert record.changes(0)[1] == []


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_double_comes_back_to_the_last_bit(place: Place, value: float) -> None:
    record = place.record()
    record.take(1, {"x": value}, why={"lower": [value, {"deep": value}], "none": None})
    record.tell(1, {"p": value})
    record.tell(1, {"p": value})
    row = place.again(record).changes(0)[1][0]
    found = [row.y["p"], row.x["x"], row.why["lower"][0], row.why["lower"][1]["deep"], record.values()[0].value]
    assert [each.hex() for each in found] == [value.hex()] * 5
    assert row.why["none"] is None


def test_only_what_changed_is_read_again(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    record.take(2, {"x": 0.6})
    known, rows = record.changes(0)
    assert [row.number for row in rows] == [1, 2]
    assert record.changes(known) == (known, [])
    place.again(record).tell(1, {"p": 1.0})
    later, rows = record.changes(known)
    assert later > known
    assert [(row.number, row.y) for row in rows] == [(1, {"p": 1.0})]


def test_a_worker_gets_its_own_pending_trial_back_and_no_one_elses(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    record.take(2, {"x": 0.6}, worker="b", lease=60.0)
    again = place.again(record).claim("b", 60.0)
    assert again is not None
    assert (again.number, again.offers) == (2, 2)
    assert record.claim("c", 60.0) is None
    assert record.claim("b", 60.0, resume=False) is None
    assert record.claim("b", 60.0, but=[2]) is None
    record.tell(2, {"p": 1.0})
    assert record.claim("b", 60.0) is None


def test_an_expired_lease_is_offered_again_and_a_renewed_one_is_not(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    record.take(2, {"x": 0.6}, worker="b", lease=60.0)
    place.clock.now += 50.0
    record.renew([1, 2], "b", 60.0)
    place.clock.now += 20.0
    taken = record.claim("c", 60.0)
    assert taken is not None
    assert (taken.number, taken.worker, taken.offers) == (1, "c", 2)
    assert record.claim("d", 60.0) is None
    assert record.tell(1, {"p": 1.0, "q": 1.0}, worker="a").state == "told"


def test_an_endless_lease_never_expires(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a")
    place.clock.now += 1e9
    assert record.claim("b") is None
    assert record.claim("a") is not None


@pytest.mark.parametrize("jump", [-1e9, -3600.0, 3600.0, 1e9])
def test_a_clock_that_jumps_costs_an_evaluation_at_most(place: Place, jump: float) -> None:
    """Forward: the lease is over. Back by more than its length: it was written by a clock that cannot be right."""
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    place.clock.now += jump
    taken = record.claim("b", 60.0)
    assert taken is not None
    assert taken.worker == "b"
    assert record.claim("c", 60.0) is None
    assert record.tell(1, {"p": 1.0, "q": 2.0}, worker="a").state == "told"
    assert record.tell(1, {"p": 1.0, "q": 2.0}, worker="b").state == "told"
    assert [value.counts for value in record.values()] == [True, True, False, False]
    assert record.take(2, {"x": 0.5}) is not None


def test_clocks_that_differ_a_little_do_not_end_a_lease(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    place.clock.now -= 5.0
    assert record.claim("b", 60.0) is None


def test_a_new_question_is_recorded_and_an_old_one_keeps_its_number(place: Place) -> None:
    record = place.record()
    other = {**STATEMENT, "constants": {"c": 2.0}}
    assert record.revise(other) == 2
    assert record.revise({**other, "blackbox": {"name": "h", "source": None, "hash": "1"}}) == 2
    assert record.revise(STATEMENT) == 1
    assert record.revise(other) == 2
    again = place.again(record)
    assert [(each.number, each.statement["constants"]["c"]) for each in again.questions()] == [(1, 1.0), (2, 2.0)]
    assert (again.about.revision, again.about.statement["constants"]) == (2, {"c": 2.0})


def test_data_are_kept_under_new_names_and_the_history_shows_the_old_ones(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    record.tell(1, {"p": 1.0}, at={"x": 0.6})
    record.tell(1, {"q": 3.0})
    place.clock.now += 10.0
    correct(record, 1, {"q": 4.0}, why="typo")
    place.clock.now += 10.0
    other = {**STATEMENT, "variables": {"z": {"lo": 0.0, "hi": 1.0}}, "outputs": ["q", "p"]}
    assert record.revise(other, names={"x": "z", "p": "q", "q": "p"}, worker="Mia") == 2
    place.clock.now += 10.0
    again = place.again(record)
    row = again.changes(0)[1][0]
    assert (dict(row.x), dict(row.run or {}), row.state) == ({"z": 0.5}, {"z": 0.6}, "told")
    assert dict(row.y) == {"q": 1.0, "p": 4.0}
    assert not again.damage
    what = [each.what for each in history(again, 1) if each.kind != "asked"]
    assert what[1:4] == ["told: p = 1, q = 3", "corrected: q = 4 instead of 3 (typo)", history(again)[-1].what]
    assert history(again)[-1].worker == "Mia"
    assert former_names(again.events(), ["z", "q", "p"]) == {"x": "z"}


def test_who_opened_a_study_before_its_names_changed_tells_under_the_new_ones(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    early = place.again(record)
    record.revise({**STATEMENT, "outputs": ["p", "r"]}, names={"q": "r"})
    assert early.tell(1, {"p": 1.0, "q": 2.0}).state == "told"
    assert dict(place.again(record).changes(0)[1][0].y) == {"p": 1.0, "r": 2.0}


def test_what_a_study_was_made_with_comes_back(place: Place) -> None:
    name = f"Résumé 'η'; DROP TABLE studies; -- {uuid.uuid4().hex}"
    about = place.again(place.record(name)).about
    assert (about.name, about.seed, about.initial) == (name, 2**40 + 1, 5)
    assert (about.statement, about.solver) == (STATEMENT, {"name": "random"})


def test_studies_in_one_place_are_apart(place: Place) -> None:
    one, two = place.record(), place.record()
    one.take(1, {"x": 0.5})
    assert two.changes(0) == (0, [])
    assert two.take(1, {"x": 0.25}) is not None
    one.tell(1, {"p": 1.0})
    assert two.values() == []


def test_threads_at_once_lose_nothing(place: Place) -> None:
    record = place.record()

    def work(worker: int) -> list[int]:
        mine, known, number = [], 0, 0
        while number < 24:
            known, rows = record.changes(known)
            number = max([number, *(row.number for row in rows)])
            if number < 24 and record.take(number + 1, {"x": worker / 8}, worker=str(worker)) is not None:
                record.tell(number + 1, {"p": 1.0, "q": float(worker)})
                mine.append(number + 1)
        return mine

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for mine in pool.map(work, range(4)) for number in mine]
    assert sorted(numbers) == list(range(1, 25))
    assert [row.state for row in record.changes(0)[1]] == ["told"] * 24
    assert len(record.values()) == 48
