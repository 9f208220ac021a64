"""What was told can be corrected, withdrawn and restored, and stays: in memory, in SQLite, on PostgreSQL."""

import pytest
import sqlalchemy
from test_store_contract import STATEMENT, Place
from test_store_contract import place as place  # the fixtures that cross the three kinds of records

from pied import Contradiction, TellError
from pied.records import annotate, correct, history, restore, withdraw
from pied.records.record import About, Record
from pied.records.sql import Store


def told(place: Place) -> Record:
    """One told trial of a, and an open one of b."""
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a")
    record.take(2, {"x": 0.6}, worker="b")
    record.tell(1, {"p": 1.0, "q": 2.0}, worker="a")
    return record


@pytest.mark.slow
def test_a_correction_counts_and_every_earlier_value_stays_with_its_author(place: Place) -> None:
    record = told(place)
    for second, value in enumerate((1.5, 1.25), 1):
        place.clock.now += second
        row = correct(record, 1, {"p": value}, why="typo", worker="c")
        assert (row.state, row.y, row.corrected) == ("told", {"p": value, "q": 2.0}, second)
    again = place.again(record)
    assert again.changes(0)[1][0].y == {"p": 1.25, "q": 2.0}
    kept = [(each.value, each.counts, each.worker) for each in again.values() if each.output == "p"]
    assert kept == [(1.0, False, "a"), (1.5, False, "c"), (1.25, True, "c")]
    assert [(each.kind, each.worker, each.why) for each in history(again, 1)] == [
        ("asked", "a", ""), ("told", "a", ""), ("corrected", "c", "typo"), ("corrected", "c", "typo"),
    ]  # fmt: skip
    assert history(again, 1)[-1].data == {"before": {"p": 1.5}, "after": {"p": 1.25}}


def test_a_correction_by_the_same_value_changes_nothing(place: Place) -> None:
    record = told(place)
    assert correct(record, 1, {"p": 1.0}, why="no").corrected == 0
    assert record.events() == []


def test_a_contradiction_knows_its_remedy(place: Place) -> None:
    record = told(place)
    with pytest.raises(Contradiction, match=r"study\.correct\(1, \{'p': 3\.0\}, why='\.\.\.'\)") as raised:
        record.tell(1, {"p": 3.0, "q": 2.0})
    correct(record, raised.value.number, raised.value.values, why="typo")
    assert place.again(record).changes(0)[1][0].y["p"] == 3.0


def test_a_withdrawn_trial_is_closed_until_it_is_restored_as_it_was(place: Place) -> None:
    record = told(place)
    record.fail(2, "pump", worker="b")
    for number, state, reason in ((1, "told", ""), (2, "failed", "pump")):
        row = withdraw(record, number, why="contaminated", worker="c")
        assert (row.state, row.reason) == ("withdrawn", "contaminated")
        with pytest.raises(TellError, match=r"was withdrawn \('contaminated'\): restore it first"):
            record.tell(number, {"p": 9.0})
        with pytest.raises(TellError, match="restore it first, then correct it"):
            correct(record, number, {"p": 9.0}, why="no")
        assert withdraw(record, number, why="contaminated", worker="c") == row
        with pytest.raises(TellError, match="was withdrawn before"):
            withdraw(record, number, why="once more")
        row = restore(place.again(record), number, worker="d")
        assert (row.state, row.reason) == (state, reason)
        assert row.corrected == 2 * number
        assert restore(record, number) == row
    assert [each.kind for each in record.events()] == ["failed", *["withdrawn", "restored"] * 2]
    with pytest.raises(TellError, match="was not withdrawn, there is nothing to restore"):
        restore(record, record.add(lambda _: [({"x": 0.7}, {"p": 1.0})])[0].number)
    assert place.again(record).changes(0)[1][0].y == {"p": 1.0, "q": 2.0}
    assert [each.kind for each in history(record, 1)].count("refused") == 1


def test_a_note_that_its_author_repeats_is_kept_once(place: Place) -> None:
    record = told(place)
    for text, worker in (("blue", "a"), ("blue", "a"), ("blue", "b"), ("green", "a"), ("blue", "b"), ("blue", "a")):
        annotate(record, 1, text, worker=worker)
    annotate(record, 0, "blue", worker="a")
    said = [(each.number, each.why, each.worker) for each in record.events()]
    assert said == [(1, "blue", "a"), (1, "blue", "b"), (1, "green", "a"), (1, "blue", "a"), (0, "blue", "a")]


def test_an_open_trial_can_be_withdrawn_without_changing_the_data(place: Place) -> None:
    record = told(place)
    assert withdraw(record, 2, why="no time").corrected == 0
    assert record.claim("b") is None
    assert restore(record, 2).state == "asked"
    assert record.claim("b") is not None
    with pytest.raises(TellError, match="has no values that could be corrected: tell them"):
        correct(record, 2, {"p": 1.0}, why="no")


def test_a_told_trial_can_fail_if_that_is_meant_and_a_failed_one_can_be_corrected(place: Place) -> None:
    record = told(place)
    with pytest.raises(TellError, match="has been told already and cannot fail"):
        record.fail(1, "leak")
    row = record.fail(1, "leak", worker="c", anyway=True)
    assert (row.state, row.y, row.corrected) == ("failed", {}, 1)
    assert place.again(record).changes(0)[1][0].y == {}
    row = correct(record, 1, {"p": 1.5}, why="it was tight", worker="a")
    assert (row.state, row.y, row.reason, row.corrected) == ("partial", {"p": 1.5}, "", 2)
    assert place.again(record).changes(0)[1][0] == row
    failed = next(each for each in history(record, 1) if each.kind == "failed")
    assert (failed.worker, failed.why, failed.data) == ("c", "leak", {"before": {"p": 1.0, "q": 2.0}})


def test_that_a_failure_had_nothing_to_do_with_the_settings_stays_and_can_be_taken_back(place: Place) -> None:
    record = told(place)
    assert record.fail(2, "broke", worker="b", not_the_settings=True).corrected == 0
    assert place.again(record).changes(0)[1][1].is_not_the_settings
    assert record.fail(2, "anything") == record.changes(0)[1][1], "nothing new is said"
    row = withdraw(record, 2, why="dirty")
    assert restore(place.again(record), 2).is_not_the_settings
    row = record.fail(2, "anything", not_the_settings=False)
    assert (row.reason, row.is_not_the_settings) == ("broke", False)
    assert not place.again(record).changes(0)[1][1].is_not_the_settings
    assert record.fail(1, "leak", anyway=True, not_the_settings=True).is_not_the_settings


def test_the_point_that_was_run_stands_beside_the_proposed_one(place: Place) -> None:
    record = told(place)
    row = record.tell(2, {"p": 1.0}, at={"x": 0.65}, worker="b")
    assert (row.x, row.run, row.corrected) == ({"x": 0.6}, {"x": 0.65}, 0)
    assert place.again(record).changes(0)[1][1] == row
    assert record.tell(2, {"q": 1.0}, at={"x": 0.65}).state == "told"
    with pytest.raises(Contradiction, match=r"run at x = 0\.65, not at 0\.7; the first point is kept"):
        record.tell(2, {}, at={"x": 0.7})
    assert correct(record, 2, {}, at={"x": 0.7}, why="misread").run == {"x": 0.7}
    assert record.tell(2, {}, at={"x": 0.7}).corrected == 1
    moves = [each.data["after"] for each in history(record, 2) if each.kind == "run elsewhere"]
    assert moves == [{"x": 0.65}, {"x": 0.7}]


def test_only_a_correction_moves_a_complete_trial(place: Place) -> None:
    record = told(place)
    with pytest.raises(
        Contradiction, match=r"counts as run at x = 0\.5, not at 0\.55; the first point is kept"
    ) as error:
        record.tell(1, {"p": 1.0}, at={"x": 0.55})
    assert error.value.at == {"x": 0.55}
    assert record.tell(1, {}, at={"x": 0.5}).run is None
    row = correct(record, 1, {}, at={"x": 0.55}, why="the thermometer was off")
    assert (row.run, row.corrected) == ({"x": 0.55}, 1)
    record.tell(2, {"p": 1.0})
    assert record.tell(2, {"q": 1.0}, at={"x": 0.65}).corrected == 2  # measured in part, it may still be told


def test_notes_and_all_contributors_are_in_the_history(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="anna", lease=60.0)
    place.clock.now += 61.0
    record.claim("bob", 60.0)
    place.clock.now += 1.0
    annotate(record, 1, "new catalyst batch", worker="carl")
    place.clock.now += 1.0
    record.tell(1, {"p": 1.0, "q": 1.0}, worker="dora")
    found = [(each.kind, each.worker) for each in history(place.again(record))]
    assert found[1:] == [("asked", "anna"), ("handed out", "bob"), ("noted", "carl"), ("told", "dora")]
    assert "note: new catalyst batch" in [each.what for each in history(record, 1)]
    with pytest.raises(TellError, match="there is no trial 7"):
        annotate(record, 7, "what?")


def test_a_server_of_the_version_before_is_read_as_it_is_and_upgraded_in_place(server: str) -> None:
    base = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
    with base.connect() as tx:
        tx.exec_driver_sql("CREATE DATABASE version2")
    base.dispose()
    url = sqlalchemy.make_url(server).set(database="version2").render_as_string(hide_password=False)
    with Store.connect(url) as store:
        record = store.create(About("a", STATEMENT, 1, {"name": "random"}, 5))
        record.take(1, {"x": 0.5}, worker="a")
        record.tell(1, {"p": 1.0})
    base = sqlalchemy.create_engine(url)
    with base.begin() as tx:
        tx.exec_driver_sql("DROP TABLE events")
        tx.exec_driver_sql("ALTER TABLE trials DROP COLUMN run, DROP COLUMN corrected")
        tx.exec_driver_sql('ALTER TABLE "values" DROP COLUMN deviation, DROP COLUMN repetitions')
        tx.exec_driver_sql("UPDATE schema SET version = 2")
    base.dispose()
    with Store.connect(url, read_only=True) as reader:
        assert reader.record("a").changes(0)[1][0].y == {"p": 1.0}
        assert [each.kind for each in history(reader.record("a"), 1)] == ["asked", "told"]
        with Store.connect(url) as writer:
            correct(writer.record("a"), 1, {"p": 2.0}, why="typo", worker="b")
        assert reader.record("a").changes(0)[1][0].y == {"p": 2.0}
        assert history(reader.record("a"), 1)[-1].why == "typo"
