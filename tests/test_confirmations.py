"""A verdict counts outcomes: confirmations asked side by side, from the same data, count once."""

from dataclasses import replace

import pytest

from pied import Problem, Status, Study
from pied.problem.named import Named
from pied.records.trial import State, Trial, Why
from pied.solvers.cuqb import CUQB
from pied.study.snapshot import Snapshot
from tiny import fast, hill


def deep() -> Problem:
    """y is a sum of squares: it cannot be -20."""
    return hill(subject_to={"deep": "y <= -20", "line": "a + b <= 3"})


def trial(number: int, margin: float | None, pending: tuple[int, ...] | None, state: State = State.TOLD) -> Trial:
    """A trial of a belief, with the margin of its test and what was pending when it was asked."""
    y = Named(["y"], (1.0,)) if state is State.TOLD else None
    why = Why("feasibility", margin=margin, pending=pending)
    return Trial(number, Named(["a", "b"], (1.0, 0.1 * number)), state, y=y, why=why)


def judged(*trials: Trial) -> Snapshot:
    """What a record says."""
    return Snapshot(deep(), CUQB, 0, 3, 5, trials)


def test_tests_made_side_by_side_confirm_once() -> None:
    together = judged(trial(1, -1.0, ()), trial(2, -1.0, (1,)), trial(3, -1.0, (1, 2)), trial(4, -1.0, (1, 2, 3)))
    assert together.confirmations == 1
    assert together.status is Status.RUNNING


def test_a_result_says_how_near_the_verdict_is() -> None:
    one = judged(trial(1, -1.0, ()), trial(2, -1.0, (1,)))
    assert "1 of 3 confirmations that there are none" in one.result().message


def test_tests_made_one_after_the_other_confirm_each() -> None:
    in_turn = judged(*(trial(number, -1.0, ()) for number in (1, 2, 3)))
    assert in_turn.confirmations == 3
    assert in_turn.status is Status.INFEASIBLE


def test_with_several_pending_each_round_of_outcomes_confirms_once() -> None:
    """Two are always pending: 3 was asked when 1 was told, 5 when 3 was."""
    chain = [trial(1, -1.0, ()), trial(2, -1.0, (1,)), trial(3, -1.0, (2,)), trial(4, -1.0, (3,)), trial(5, -1.0, (4,))]
    assert [judged(*chain[:count]).confirmations for count in range(1, 6)] == [1, 1, 2, 2, 3]


def test_a_trial_told_late_takes_no_confirmation_away() -> None:
    """Trial 1 takes long: 2, 3 and 4 were told one after the other meanwhile."""
    others = [trial(2, -1.0, (1,)), trial(3, -1.0, (1,)), trial(4, -1.0, (1,))]
    for state in (State.ASKED, State.FAILED, State.TOLD):
        assert judged(trial(1, -1.0, (), state), *others).confirmations == 3


@pytest.mark.parametrize("state", [State.ASKED, State.FAILED, State.PARTIAL])
def test_a_test_without_an_outcome_confirms_nothing(state: State) -> None:
    assert judged(trial(1, -1.0, ()), trial(2, -1.0, (), state), trial(3, -1.0, ())).confirmations == 2


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("margin", [None, 0.0, 0.3])
def test_a_test_that_was_passed_begins_anew_whatever_came_of_its_trial(state: State, margin: float | None) -> None:
    record = [trial(1, -1.0, ()), trial(2, -1.0, ()), trial(3, margin, (), state), trial(4, -1.0, ())]
    assert judged(*record).confirmations == 1


def test_in_records_without_what_was_pending_the_times_decide() -> None:
    times = [(10.0, 20.0), (21.0, 30.0), (22.0, 31.0), (32.0, 40.0)]
    record = [
        replace(trial(number, -1.0, None), asked=asked, settled=settled)
        for number, (asked, settled) in enumerate(times, start=1)
    ]
    assert [judged(*record[:count]).confirmations for count in range(1, 5)] == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("margin", "status"), [(None, Status.RUNNING), (0.2, Status.RUNNING), (-1.0, Status.INFEASIBLE)]
)
def test_the_verdict_waits_for_outcomes_that_could_be_feasible(margin: float | None, status: Status) -> None:
    """Trial 1 was proposed when the constraints seemed satisfiable, and is still being evaluated."""
    confirming = [trial(number, -1.0, (1,)) for number in (2, 3, 4)]
    assert judged(trial(1, margin, (), State.ASKED), *confirming).status is status
    for settled in (State.TOLD, State.FAILED):
        assert judged(trial(1, margin, (), settled), *confirming).status is Status.INFEASIBLE


def test_what_was_pending_is_kept_with_the_trial() -> None:
    study = Study(deep(), seed=0, solver=fast())
    first, second = study.ask(), study.ask()
    assert (first.why.pending, second.why.pending) == ((), (1,))
    study.tell(first, 1.0)
    assert study.ask().why.pending == (2,)
    assert Why.from_dict(second.why.to_dict()).pending == (1,)
    assert Why.from_dict({"aim": "explore"}).pending is None


def test_a_test_that_only_a_pending_candidate_can_pass_is_passed() -> None:
    """y = x, wanted above 0.95: the last candidate of the list is the only hope, and it is being measured."""
    problem = Problem(
        ["x"], ["y"], candidates=[{"x": 0.1 * i} for i in range(11)], maximize="x", subject_to=["y >= 0.95"], noise=0
    )
    study = Study(problem, seed=0, solver=fast(), initial=2)
    for x in (0.0, 0.2, 0.4, 0.6, 0.8):
        study.add({"x": x}, {"y": x})
    first, second = study.ask(), study.ask()
    assert first.x.x == pytest.approx(1.0)
    assert second.why.pending == (first.number,)
    assert second.why.margin is None or second.why.margin >= 0


@pytest.mark.slow
def test_a_batch_told_at_once_is_one_confirmation() -> None:
    """Four pending trials, told together: no verdict before three rounds of outcomes."""
    study = Study(deep(), seed=0, solver=fast())
    study.run(5)
    rounds = 0
    while study.status is Status.RUNNING and rounds < 10:
        batch = [study.ask() for _ in range(4)]
        for each in batch:
            study.tell(each, study.problem.evaluate(each.x).tolist())
        rounds += 1
    assert study.status is Status.INFEASIBLE
    assert rounds >= 3
