"""Who holds a trial, and what a late word about it changes: in memory, in SQLite, on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from test_store_contract import Place
from test_store_contract import place as place  # the fixtures that cross the three kinds of records

from pied import TellError


def test_a_late_failure_of_a_former_holder_changes_nothing(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    place.clock.now += 61.0
    assert record.claim("b", 60.0) is not None
    for later in (0.0, 61.0):  # the second holder may be late, too, and still measure
        place.clock.now += later
        with pytest.raises(TellError, match="'b' is evaluating it now, so this failure of 'a' changes nothing"):
            record.fail(1, "pump tripped", worker="a")
        assert place.again(record).changes(0)[1][0].state == "asked"
    assert record.tell(1, {"p": 1.0, "q": 2.0}, worker="b").state == "told"


def test_the_holder_may_fail_a_trial_that_was_handed_out_again(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    place.clock.now += 61.0
    record.claim("b", 60.0)
    assert record.fail(1, "no", worker="b").state == "failed"


def test_a_trial_with_one_holder_may_be_failed_by_others(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    assert record.fail(1, "a is ill", worker="boss").state == "failed"


def test_a_second_failure_keeps_the_first_reason(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a")
    first = record.fail(1, "pump tripped", worker="a")
    assert record.fail(1, "something else", worker="b") == first
    assert place.again(record).changes(0)[1][0].reason == "pump tripped"


def test_one_renews_the_own_lease_also_after_it_ran_out(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a", lease=60.0)
    record.take(2, {"x": 0.6}, worker="b", lease=60.0)
    place.clock.now += 61.0
    assert record.renew([1, 2, 3], "a", 60.0) == [1]
    again = place.again(record).claim("c", 60.0)
    assert again is not None
    assert again.number == 2
    assert record.renew([1, 2], "b", 60.0) == []
    assert record.claim("c", 60.0, resume=False) is None


def test_an_endless_lease_is_held_without_being_renewed(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5}, worker="a")
    known = record.changes(0)[0]
    assert record.renew([1], "a", 60.0) == [1]
    assert record.changes(known)[1] == []


def test_an_expired_trial_is_held_by_one_of_many_who_want_it(place: Place) -> None:
    record = place.record()
    for number in range(1, 9):
        record.take(number, {"x": 0.5}, worker="a", lease=60.0)
    place.clock.now += 61.0

    def want(who: int) -> list[int]:
        if who == 0:
            return record.renew(range(1, 9), "a", 60.0)
        return [row.number for _ in range(3) if (row := record.claim(f"w{who}", 60.0, resume=False)) is not None]

    with ThreadPoolExecutor(4) as pool:
        held = [number for numbers in pool.map(want, range(4)) for number in numbers]
    assert sorted(held) == sorted(set(held))
    assert set(held) == set(range(1, 9))


def test_what_does_not_contradict_is_kept_beside_what_does(place: Place) -> None:
    record = place.record()
    record.take(1, {"x": 0.5})
    record.tell(1, {"p": 1.0})
    with pytest.raises(TellError, match=r"'p' was told as 1\.0 and cannot become 2\.0; .* Recorded: 'q' = 5\.0"):
        record.tell(1, {"p": 2.0, "q": 5.0}, worker="late")
    row = place.again(record).changes(0)[1][0]
    assert (row.state, row.y) == ("told", {"p": 1.0, "q": 5.0})
    kept = [(value.output, value.value, value.counts) for value in record.values()]
    assert kept == [("p", 1.0, True), ("p", 2.0, False), ("q", 5.0, True)]
    with pytest.raises(TellError) as caught:
        record.tell(1, {"p": 3.0, "q": 6.0})
    assert "'p' was told as 1.0" in str(caught.value)
    assert "'q' was told as 5.0" in str(caught.value)
    assert "Recorded" not in str(caught.value)
