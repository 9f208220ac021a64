"""Routines that own their loop: the same points in the same order, also after a restart; they end on close."""

import gc
import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from pied import Problem, SettingError, SolverDone, Status, Study, TellError
from pied.records.trial import Dataset, State, Trial
from pied.rivals.driven import PAPER_PENALTY, DrivenRun, Evaluate, Merit, Start
from pied.rng import Stream
from pied.solvers.base import Run, Solver
from tiny import hill, parabola, points, waves

INITIAL = 3
"""Points of the initial design of one variable."""


def walk(start: Start, evaluate: Evaluate) -> str:
    """Halve a step from the best point whenever a neighbour is no better."""
    x, step = start.best, 0.1
    value = evaluate(np.clip(x + 0.01, 0, 1))
    for _ in range(40):
        other = np.clip(x + step * start.generator.choice([-1.0, 1.0], len(x)), 0.0, 1.0)
        found = evaluate(other)
        if found < value:
            x, value = other, found
        else:
            step *= 0.7
    return "walked enough"


def short(start: Start, evaluate: Evaluate) -> str:
    """Two points, then done."""
    for place in (0.2, 0.8):
        evaluate(np.full(start.d, place))
    return "two points are enough"


@dataclass(frozen=True)
class Toy(Solver):
    """A routine as a solver."""

    name: ClassVar[str] = "toy"
    parallel: ClassVar[bool] = False
    routine: Callable[[Start, Evaluate], str] = walk
    legacy: bool = False
    merit: Merit = Merit(10.0, True)  # noqa: RUF009  frozen

    def start(self, problem: Problem, stream: Stream) -> DrivenRun:
        return DrivenRun(self.name, problem, stream, self.routine, self.merit, legacy=self.legacy)


def told(problem: Problem, solver: Solver, evaluations: int, seed: int = 0) -> Study:
    return go_on(Study(problem, solver=solver, seed=seed), evaluations)


def go_on(study: Study, evaluations: int) -> Study:
    """Ask and tell, without the result that `run` ends with."""
    for _ in range(evaluations):
        trial = study.ask()
        study.tell(trial, study.problem.evaluate(trial.x))
    return study


def unit(study: Study, trial: Trial) -> Any:
    """Where a trial is, in the unit cube, to rounding."""
    point = np.array(points([trial])[0])
    return pytest.approx(study.problem.to_unit(point).tolist(), abs=1e-12)


def fresh(study: Study) -> Run:
    """A new run of the study's solver, as after a restart."""
    return study.solver.start(study.problem, Stream(study.seed))


@pytest.fixture(autouse=True)
def _alone() -> None:
    """Let the threads of runs that earlier tests forgot end before any are counted."""
    gc.collect()
    for each in threading.enumerate():
        if each.name.startswith("pied "):
            each.join(timeout=1.0)


def threads() -> int:
    return sum(each.name.startswith("pied ") for each in threading.enumerate())


def test_a_routine_sees_what_it_would_see_if_it_called_the_function_itself() -> None:
    problem = waves()
    study = told(problem, Toy(), 25)
    first = study.data.first(5)
    merit, f = Merit(10.0, True), first.functions(problem)
    seen: list[list[float]] = []

    def function(u: Any) -> float:
        seen.append(u.tolist())
        x = problem.from_unit(u[None])
        y = problem.evaluate(x[0].tolist())
        values = np.stack([g.reshape(-1)[0] for g in problem.g(x, y[None, None])])[None]
        return float(merit.of(problem, values, f)[0])

    start = Start(first.U, merit.of(problem, f, f), 2, True, Stream(0).at("loop", 6).generator())
    walk(start, function)
    assert np.allclose(study.data.U[5:], np.array(seen[:20]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("stop", [3, 4, 9, 15])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_fresh_run_goes_on_where_the_record_ends(stop: int, legacy: bool) -> None:
    def drawn(start: Start, evaluate: Evaluate) -> str:
        """Uses NumPy's global generator, as some libraries do."""
        while True:
            evaluate(np.random.random(start.d))

    study = told(parabola(), Toy(drawn if legacy else walk, legacy), 18)
    before = [replace(trial, why=replace(trial.why, memory=_stored(trial))) for trial in study.trials[:stop]]
    proposal = fresh(study).ask(stop + 1, Dataset.of(study.problem, before))
    assert proposal.u.tolist() == pytest.approx(study.data.U[stop].tolist(), abs=1e-12)


def _stored(trial: Trial) -> Any:
    """A trial's memory after it was written and read."""
    return json.loads(json.dumps(dict(trial.why.memory)))


def test_a_run_that_is_handed_a_shorter_record_starts_again() -> None:
    study = told(parabola(), Toy(), 12)
    run = fresh(study)
    late = run.ask(11, Dataset.of(study.problem, study.trials[:10]))
    early = run.ask(7, Dataset.of(study.problem, study.trials[:6]))
    assert late.u.tolist() == pytest.approx(study.data.U[10].tolist(), abs=1e-12)
    assert early.u.tolist() == pytest.approx(study.data.U[6].tolist(), abs=1e-12)
    run.close()


def test_a_record_that_the_routine_would_not_have_made_is_refused() -> None:
    study = told(parabola(), Toy(), 8)
    for stranger in (Toy().start(study.problem, Stream(1)), Toy(short).start(study.problem, Stream(0))):
        with pytest.raises(SettingError, match=r"cannot be continued by solver 'toy': trial \d is at"):
            stranger.ask(9, study.data)


def test_a_record_longer_than_the_routine_is_refused() -> None:
    study = told(parabola(), Toy(short), 5)
    added = [*study.trials, replace(study.trials[-1], number=6)]
    with pytest.raises(SettingError, match=r"trial 6 is at .* the routine, given the same values, has ended"):
        fresh(study).ask(7, replace(Dataset.of(study.problem, added), last=replace(
            study.trials[-1].why, memory=dict(study.trials[-1].why.memory) | {"last": 6})))  # fmt: skip


def test_a_routine_that_ends_is_done_and_no_point_is_invented() -> None:
    study = Study(parabola(), solver=Toy(short), seed=0)
    result = study.run(20)
    assert result.status is Status.DONE
    assert study.used == INITIAL + 2
    with pytest.raises(SolverDone, match="solver 'toy' has nothing more to propose: two points are enough"):
        study.ask()


def test_what_a_routine_raises_reaches_the_one_who_asks() -> None:
    def broken(start: Start, evaluate: Evaluate) -> str:
        evaluate(start.best + 0.01)
        raise ZeroDivisionError("the routine is broken")

    study = told(parabola(), Toy(broken), INITIAL + 1)
    with pytest.raises(ZeroDivisionError, match="the routine is broken"):
        study.ask()


def answers_of(problem: Problem, change: Callable[[Study, Trial], None], merit: Merit) -> tuple[list[float], Study]:
    """What a routine is answered when some trials are not told as usual."""
    heard: list[float] = []

    def listens(start: Start, evaluate: Evaluate) -> str:
        heard.clear()
        for place in np.linspace(0.05, 0.95, 10):
            heard.append(evaluate(np.full(start.d, place)))
        return "heard enough"

    study = Study(problem, solver=Toy(listens, merit=merit), seed=0)
    for _ in range(INITIAL + 4):
        change(study, study.ask())
    study.ask()
    return list(heard), study


def test_a_failed_trial_is_answered_with_the_worst_value_known_by_then() -> None:
    def change(study: Study, trial: Trial) -> None:
        if trial.number == INITIAL + 3:
            study.fail(trial, "pump tripped")
        else:
            study.tell(trial, study.problem.evaluate(trial.x))

    heard, study = answers_of(parabola(), change, Merit(1.0, False))
    f = -study.data.functions(study.problem)[:, 0]
    assert heard[2] == pytest.approx(float(f[: INITIAL + 2].max()))
    assert heard[3] == pytest.approx(float(f[INITIAL + 2]))
    again = fresh(study).ask(INITIAL + 5, Dataset.of(study.problem, study.trials[:-1]))
    assert again.u.tolist() == unit(study, study.trials[-1])


def test_a_function_that_is_not_finite_counts_as_the_worst_value() -> None:
    problem = parabola(maximize="log(y)", ranges={"y": (0, None)}, blackbox=lambda x: 1.2 - (x.x - 1.3) ** 2)
    heard, study = answers_of(
        problem, lambda s, t: s.tell(t, s.problem.evaluate(t.x), anyway=True) and None, Merit(1.0, False)
    )
    assert all(math.isfinite(each) for each in heard)
    finite = study.data.functions(problem)[:, 0]
    assert heard[0] == pytest.approx(-float(finite[:INITIAL][np.isfinite(finite[:INITIAL])].min()))


def test_a_trial_told_in_part_is_waited_for() -> None:
    study = told(waves(), Toy(), 7)
    trial = study.ask()
    study.tell(trial, {"p": 0.1})
    with pytest.raises(TellError, match=f"solver 'toy' needs every output .* tell 'q', 'r' of trial {trial.number}"):
        study.ask()
    study.tell(trial, {"q": 0.2, "r": 0.3})
    assert study.ask().number == trial.number + 1


def test_old_data_told_in_part_stays_out_of_the_start_and_stays_out() -> None:
    problem = waves()
    study = Study(problem, solver=Toy(), seed=0)
    study.add([0.5, 0.5], {"p": 0.1})
    go_on(study, 9)
    study.tell(1, {"q": 0.2, "r": 0.3})
    proposal = fresh(study).ask(11, study.data)
    assert proposal.u.tolist() == unit(study, study.ask())


def test_data_added_on_the_way_is_not_taken_for_the_routines_own() -> None:
    plain, mixed = told(parabola(), Toy(), 12), Study(parabola(), solver=Toy(), seed=0)
    go_on(mixed, 8)
    mixed.add([2.9], [0.5])
    go_on(mixed, 4)
    own = [trial for trial in mixed.trials if not trial.is_added]
    assert points(own) == points(plain.trials)
    proposal = fresh(mixed).ask(14, mixed.data)
    assert proposal.u.tolist() == unit(mixed, mixed.ask())


def test_the_record_of_another_solver_is_a_start() -> None:
    study = told(parabola(), Toy(), 9)
    other = [replace(trial, why=replace(trial.why, aim="other", memory={})) for trial in study.trials]
    begun: list[int] = []

    def counts(start: Start, evaluate: Evaluate) -> str:
        begun.append(len(start.F))
        return short(start, evaluate)

    run = Toy(counts).start(study.problem, Stream(0))
    assert run.ask(10, Dataset.of(study.problem, other)).u.tolist() == [0.2]
    assert begun == [9]
    run.close()


def test_an_exact_black_box_is_not_asked_again_for_what_the_start_knows() -> None:
    def repeats(start: Start, evaluate: Evaluate) -> str:
        assert evaluate(start.best) == start.F.min()
        return short(start, evaluate)

    study = told(parabola(), Toy(repeats), INITIAL + 1)
    assert study.data.U[-1].tolist() == pytest.approx([0.2])
    noisy = told(parabola(noise=0.1), Toy(repeats), INITIAL)
    assert noisy.ask().x.x in [trial.x.x for trial in noisy.trials[:-1]]


def test_one_trial_at_a_time() -> None:
    study = told(parabola(), Toy(), INITIAL)
    study.ask()
    with pytest.raises(TellError, match="solver 'toy' takes one trial at a time"):
        study.ask()


def test_close_ends_the_thread_and_a_closed_run_can_be_asked_again() -> None:
    before = threads()
    study = told(parabola(), Toy(), 8)
    run = fresh(study)
    one = run.ask(9, study.data)
    assert threads() == before + 2
    run.close()
    run.close()
    assert threads() == before + 1
    assert np.array_equal(run.ask(9, study.data).u, one.u)
    run.close()


def test_a_forgotten_run_ends_its_thread() -> None:
    before = threads()
    run = Toy().start(parabola(), Stream(0))
    data = told(parabola(), Toy(), INITIAL).data
    others = threading.enumerate()
    run.ask(4, data)
    (thread,) = [each for each in threading.enumerate() if each not in others]
    del run
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()
    assert threads() <= before + 1


def test_a_routine_that_catches_every_exception_is_unwound_all_the_same() -> None:
    def stubborn(start: Start, evaluate: Evaluate) -> str:
        while True:
            try:
                evaluate(start.generator.random(start.d))
            except Exception:
                continue

    before = threads()
    run = Toy(stubborn).start(parabola(), Stream(0))
    run.ask(4, told(parabola(), Toy(), INITIAL).data)
    run.close()
    gc.collect()
    assert threads() <= before


def test_a_lent_global_generator_comes_back_as_it_was() -> None:
    def draws(start: Start, evaluate: Evaluate) -> str:
        while True:
            evaluate(np.random.random(start.d))

    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    study = told(parabola(), Toy(draws, legacy=True), 9)
    assert (np.random.get_state()[1] == before).all()
    np.random.seed(6)
    assert points(told(parabola(), Toy(draws, legacy=True), 9).trials) == points(study.trials)


def test_the_merit_of_the_paper_is_the_exact_penalty() -> None:
    problem = hill()
    f = np.array([[1.0, 2.0, -3.0], [4.0, -1.0, 1.0]])
    merit = Merit(PAPER_PENALTY, False).of(problem, f, f)
    assert merit.tolist() == [-1.0 + 3e5, -4.0 + 1e5]


def test_the_scaled_merit_does_not_depend_on_units() -> None:
    problem = hill()
    f = np.random.default_rng(0).normal(size=(9, 3))
    scaled = f * np.array([1e3, 1e-4, 7.0])
    one, two = Merit(10.0, True).of(problem, f, f[:5]), Merit(10.0, True).of(problem, scaled, scaled[:5])
    assert one.tolist() == pytest.approx(two.tolist(), rel=1e-12)


@pytest.mark.parametrize("penalty", [0.0, -1.0, math.inf, math.nan])
def test_a_penalty_is_a_positive_number(penalty: float) -> None:
    with pytest.raises(SettingError, match="penalty is a positive weight"):
        Merit(penalty, True)


def test_failed_and_told_trials_are_told_apart_in_a_replay() -> None:
    study = told(parabola(), Toy(), 6)
    study.fail(study.ask(), "broke")
    go_on(study, 3)
    assert study.trials[6].state is State.FAILED
    proposal = fresh(study).ask(11, study.data)
    assert proposal.u.tolist() == unit(study, study.ask())
