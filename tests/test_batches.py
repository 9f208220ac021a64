"""Batches: pending points are distinct, or called repetitions; without pending points nothing changes."""

import csv
from pathlib import Path

import numpy as np
import pytest

from pied import Choice, Problem, SolverDone, Study, Variable
from pied.bounds import Believer
from pied.records.trial import Dataset, Why
from pied.rng import Stream
from pied.solvers import batches
from shells import data, pied_
from tiny import fast, hill, parabola, points, unchecked

GRID = """
maximize = "y - 0.01*time"
[variables]
temperature = { lo = 60, hi = 80, step = 20 }
time = { lo = 1, hi = 2, step = 1 }
[outputs]
y = { noise = 0.2 }
[study]
seed = 1
initial = 3
"""


def unit(problem, trials):
    return problem.to_unit(np.array(points(trials)))


def told(problem: Problem, evaluations: int, seed: int = 0, **words) -> Study:
    """A study after some evaluations; the noise is drawn by the number of the trial."""
    study = Study(problem, seed=seed, **words)
    for _ in range(evaluations):
        tell(study, study.ask())
    return study


def tell(study, trial):
    y = study.problem.evaluate(trial.x)
    sigma = np.array([noise or 0.0 for noise in study.problem.noise])
    study.tell(trial, (y + sigma * np.random.default_rng(trial.number).standard_normal(len(y))).tolist())


def twins(problem, trials):
    """Pairs of trials that a laboratory would call the same."""
    U = unit(problem, trials)
    near = (np.abs(U[:, None] - U[None]) < batches.SAME_SETTINGS).all(2)
    return [(trials[i], trials[j]) for i, j in zip(*np.nonzero(np.tril(near, -1)), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "evaluations"), [(parabola, 7), (hill, 9)])
def test_a_batch_of_a_converged_exact_study_has_no_two_points_that_are_the_same(make, evaluations):
    study = told(make(), evaluations)
    batch = [study.ask(again=False) for _ in range(6)]
    assert twins(study.problem, batch) == []
    assert all(trial.why.repeats is None for trial in batch)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1e-3, 0.1])
def test_what_a_noisy_batch_repeats_is_called_a_repetition(sigma):
    study = told(parabola(noise=sigma), 8)
    batch = [study.ask(again=False) for _ in range(6)]
    for later, earlier in twins(study.problem, batch):
        assert later.why.repeats is not None, (later.number, earlier.number)
    for trial in batch:
        if trial.why.repeats is not None:
            assert trial.x == study.trials[trial.why.repeats - 1].x
            assert f"repeats trial {trial.why.repeats}, to average out the noise" in trial.summary


def test_a_finite_grid_gives_distinct_points_until_it_is_exhausted():
    variables = {"a": Variable(0, 2, step=1), "b": Variable(0, 2, step=1)}
    problem = Problem(variables, ["y"], maximize="y", noise=0, blackbox=lambda x: -((x["a"] - 1) ** 2) - x["b"])
    study = told(problem, 5, solver=fast())
    while len(study.trials) < 9:
        study.ask(again=False)
    assert len(set(points(study.trials))) == 9
    with pytest.raises(SolverDone):
        study.ask(again=False)


@pytest.mark.slow
def test_a_step_below_what_a_laboratory_tells_apart_still_makes_another_setting():
    variables = {"a": Variable(0, 1, step=0.0005), "b": (0.0, 1.0)}
    problem = Problem(variables, ["y"], maximize="y", noise=0, blackbox=lambda x: -((x["a"] - 0.4) ** 2) - x["b"])
    study = told(problem, 7, solver=fast())
    batch = [study.ask(again=False) for _ in range(5)]
    assert len(set(points(batch))) == 5
    assert all(problem.grid.has(unit(problem, batch)))


def paraboloid(x):
    return -((x["a"] - 0.7) ** 2) - (x.get("b", 0.5) - 0.5) ** 2 - (0.3 if x.get("s") == "u" else 0.0)


SETTINGS = {
    "numbers": {"a": (0.0, 1.0), "b": (0.0, 1.0)},
    "steps": {"a": Variable(0, 1, step=0.0025), "b": Variable(0, 1, step=0.025)},
    "a step": {"a": Variable(0, 1, step=0.0025), "b": (0.0, 1.0)},
    "labels": {"a": (0.0, 1.0), "s": Choice("u", "v", "w")},
}


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "limit"), [(0.005, "y <= -0.1"), (0.05, None)])
@pytest.mark.parametrize("settings", SETTINGS)
@unchecked()
def test_what_is_measured_at_once_can_be_told_apart(settings, sigma, limit):
    """Settings differ by a tenth of a range, or outputs by as much as the noise, as expected or as far as is known."""
    problem = Problem(SETTINGS[settings], ["y"], maximize="y", noise=sigma, blackbox=paraboloid,
                      subject_to={} if limit is None else {"limit": limit})  # fmt: skip
    study = told(problem, 9, solver=fast())
    belief = fast().believer.fit(problem, study.data)
    batch = [study.ask(again=False) for _ in range(4)]
    U = problem.to_unit(np.array([problem.codes(dict(trial.x)) for trial in batch]))
    for j, trial in enumerate(batch):
        if trial.why.repeats is not None:
            assert trial.x == study.trials[trial.why.repeats - 1].x
            continue
        for i in range(j):
            known = belief.imagine(U[[i]], noise=1e-6)
            (mean, other), (_, left) = (each[:, 0] for each in known.moments(U[[i, j]]))
            is_far = np.abs(U[i] - U[j]).max() >= 0.1
            assert is_far or max(abs(mean - other), left) > 0.9 * sigma, (batch[i], trial)


# ----------------------------------------------------------------------------------------------------- what is the same


def believed(problem, pending=(), evaluations=6):
    """The belief from the first points of a design, as if nothing were pending, and with pending points imagined."""
    U = Stream(1).at("points").sobol(evaluations, problem.d)
    Y = np.stack([problem.evaluate(problem.named_x(x)) for x in problem.from_unit(U)])
    gp = Believer().fit(problem, Dataset(tuple(range(1, len(U) + 1)), U, Y, U[:0]))
    return gp, gp.imagine(np.array(pending, dtype=float).reshape(-1, problem.d))


def test_near_settings_are_the_same_only_if_the_noise_hides_their_difference():
    pending = np.array([[0.3], [0.6]])
    for noise, near_is_same in ((0, False), (0.5, True)):
        problem = parabola(noise=noise)
        told, _ = believed(problem, pending)
        U = np.array([[0.6004], [0.605], [0.75]])
        expected = [[False, True], [False, near_is_same], [False, False]]
        assert batches.same(problem, told, U, pending).tolist() == expected


def test_neighbours_on_a_grid_are_not_the_same():
    problem = Problem({"a": Variable(0, 1, step=0.0005), "b": (0.0, 1.0)}, ["y"], maximize="y", noise=0,
                      blackbox=lambda x: x["a"] + x["b"])  # fmt: skip
    pending = np.array([[0.4, 0.5]])
    told, _ = believed(problem, pending)
    U = np.array([[0.4, 0.5004], [0.4005, 0.5]])
    assert batches.same(problem, told, U, pending).tolist() == [[True], [False]]


def is_worth_repeating(problem, pending):
    _, belief = believed(problem, pending, evaluations=3)
    nothing = np.zeros((0, problem.d))
    composite = Believer().bound(problem, Dataset((), nothing, nothing, pending), belief, Stream(0))
    return batches.is_worth_repeating(problem, belief, composite, np.ones(problem.k), pending[0])


def test_a_repetition_is_worth_it_under_noise_until_enough_are_pending():
    noisy = parabola(noise=0.3)
    worth = [is_worth_repeating(noisy, np.full((count, 1), 1.0)) for count in (1, 8)]
    assert worth == [True, False]
    assert not is_worth_repeating(parabola(), np.full((1, 1), 1.0))


def test_the_same_data_without_what_is_pending():
    U = np.array([[0.1], [0.2], [0.3]])
    data = Dataset((1,), U[:1], U[:1], U, failures=(1,), away=(2, 3, 4))
    assert data.pending.tolist() == [[0.1], [0.3]]
    assert data.settled.imagined.tolist() == [[0.2]]
    assert (data.settled.failures, data.settled.away, data.settled.waiting) == ((0,), (3,), [])
    settled = data.settled
    assert settled.settled is settled


def test_a_called_repetition_is_kept_with_the_trial():
    assert Why.from_dict(Why("explore", repeats=7).to_dict()).repeats == 7
    assert Why.from_dict({"aim": "explore"}).repeats is None


# ------------------------------------------------------------------------------------------------------------ the shell


@pytest.mark.slow
def test_a_plan_calls_repetitions_so_and_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(GRID)
    for value in (0.5, 0.1, 0.3, 0.6):
        number = data("ask", "grid.toml")["trial"]
        pied_("tell", "grid.toml", str(number), f"y={value}")
    done = pied_("ask", "grid.toml", "--count", "3", "--csv", "plan.csv")
    plan = list(csv.DictReader((tmp_path / "plan.csv").read_text().splitlines()))
    earlier = {row["trial"]: row for row in plan}
    repeated = [row for row in plan if row.get("remark")]
    assert repeated, done.output  # four settings are possible, and all are told
    for row in repeated:
        assert row["remark"].startswith("repeats trial ")
        assert row["remark"].split()[-1] not in earlier
    shown = pied_("ask", "grid.toml", "--count", "3").output
    assert f"trial {repeated[0]['trial']}   ({repeated[0]['remark']}, to average out the noise" in shown
    text = (tmp_path / "plan.csv").read_text().replace(",,repeats", ",0.4,repeats")
    (tmp_path / "plan.csv").write_text(text)
    told = pied_("tell", "grid.toml", "--from", "plan.csv").output
    assert told.count("complete") == len(repeated)
    assert "ignored columns" not in told


def test_a_count_beyond_a_finite_grid_gives_what_there_is_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(GRID.replace("noise = 0.2", "noise = 0"))
    done = pied_("ask", "grid.toml", "--count", "9", "--csv", "plan.csv")
    assert "only 4 of 9" in done.output
    plan = list(csv.DictReader((tmp_path / "plan.csv").read_text().splitlines()))
    assert len({(row["temperature"], row["time"]) for row in plan}) == 4


@pytest.mark.slow
def test_a_single_setting_is_measured_again_as_a_repetition_or_not_at_all():
    """The limits leave one point; no proposal after the first design breaks them."""
    for noise in (0, 0.1):
        problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y"], maximize="y", noise=noise,
                          subject_to={"a": "a >= 1", "b": "b >= 1"}, blackbox=lambda x: x["a"] + x["b"])  # fmt: skip
        study = told(problem, 6, solver=fast())
        if noise == 0:
            with pytest.raises(SolverDone, match="every setting that can be chosen has been measured"):
                study.ask()
            continue
        for trial in [study.ask(again=False) for _ in range(3)]:
            assert trial.why.repeats is not None
            assert tuple(trial.x.values()) == pytest.approx((1.0, 1.0), abs=1e-9)
