"""A belief that is stated: mean and covariance of Algorithm 1, from the first trial on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pied import CUQB, Choice, Problem, SettingError, Study, Variable
from pied.bounds import Believer
from pied.bounds.quantile import confidence, normal
from pied.gp import GP, Paths, Prior
from pied.records import Dataset
from pied.rng import Stream
from tiny import hill

KERNELS = {
    "matern 3/2": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern 5/2": lambda r: (1 + np.sqrt(5) * r + 5 * r * r / 3) * np.exp(-np.sqrt(5) * r),
    "squared exponential": lambda r: np.exp(-0.5 * r * r),
}


def covariance(prior: Prior, A, B):
    """The covariance between points, written down once more."""
    r = np.sqrt((((A[:, None] - B) / np.array(prior.scales(A.shape[1]))) ** 2).sum(-1))
    return prior.deviation**2 * KERNELS[prior.kernel](r)


def conditioned(prior: Prior, noise, U, y, V):
    """Mean and deviation at V, by the textbook's formulas."""
    K = covariance(prior, U, U) + noise**2 * np.eye(len(U))
    k = covariance(prior, V, U)
    solved = np.linalg.solve(K, k.T)
    variance = prior.deviation**2 - (k * solved.T).sum(1)
    return prior.mean + solved.T @ (y - prior.mean), np.sqrt(np.maximum(variance, 0.0))


def stated(U, Y, priors, noise):
    """The belief under test."""
    active = np.ones((len(priors), U.shape[1]), dtype=bool)
    return GP.of_priors(U, Y, priors, active=active, noise=noise)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("told", [0, 1, 7])
def test_a_stated_process_is_conditioned_as_in_the_textbook(kernel: str, told: int) -> None:
    priors = (Prior(2.0, (0.3, 0.8), kernel, mean=1.5), Prior(30.0, 0.5, mean=-4.0))
    U, V, noise = Stream(1).uniform(told, 2), Stream(2).uniform(5, 2), (0.1, 2.0)
    Y = np.stack([np.sin(4 * U[:, 0]) + U[:, 1], 50 * U[:, 0] - 20], 1)
    belief = stated(U, Y, priors, noise)
    mean, deviation = belief.moments(V)
    for j, prior in enumerate(priors):
        wanted = conditioned(prior, noise[j], U, Y[:, j], V)
        assert mean[:, j] == pytest.approx(wanted[0], rel=1e-9)
        assert deviation[:, j] == pytest.approx(wanted[1], rel=1e-7)


def test_an_output_that_was_told_less_often_keeps_more_of_its_prior() -> None:
    U = Stream(1).uniform(6, 2)
    Y = np.tile(np.sin(4 * U[:, :1]), (1, 2))
    Y[2:, 1] = np.nan
    prior = Prior(1.0, 0.4)
    mean, deviation = stated(U, Y, (prior, prior), (0.1, 0.1)).moments(U[4:])
    wanted = conditioned(prior, 0.1, U[:2], Y[:2, 1], U[4:])
    assert mean[:, 1] == pytest.approx(wanted[0], rel=1e-9)
    assert deviation[:, 1] == pytest.approx(wanted[1], rel=1e-7)


def test_slopes_of_a_stated_process_are_differences() -> None:
    U, V, step = Stream(1).uniform(7, 2), Stream(2).uniform(4, 2), 1e-6
    belief = stated(U, np.cos(3 * U[:, :1]), (Prior(2.0, (0.3, 0.8), mean=1.0),), (0.05,))
    _, _, by_mean, by_deviation = belief.moments_and_slopes(V)
    for i in range(2):
        ahead, behind = (belief.moments(V + side * step * np.eye(2)[i]) for side in (1, -1))
        assert by_mean[..., i] == pytest.approx((ahead[0] - behind[0]) / (2 * step), rel=1e-4, abs=1e-6)
        assert by_deviation[..., i] == pytest.approx((ahead[1] - behind[1]) / (2 * step), rel=1e-4, abs=1e-6)


MEANS = {"rate": lambda X: 3 * np.log(X[:, 0]) + X[:, 1] ** 2, "share": lambda X: np.zeros(len(X))}
"""Of a problem with a logarithmic axis; the second is the number 0."""


def of_formulas() -> tuple[Problem, tuple[Prior, ...]]:
    variables = {"k": Variable(0.1, 10.0, log=True), "z": (-1.0, 2.0)}
    problem = Problem(variables, list(MEANS), maximize="rate - share", noise={"rate": 0.1, "share": 0.05})
    return problem, (Prior(2.0, (0.3, 0.8), mean="3*log(k) + z**2"), Prior(1.0, 0.5))


def test_a_mean_may_be_a_formula_in_the_variables() -> None:
    problem, priors = of_formulas()
    U, V, step = Stream(1).uniform(6, 2), Stream(2).uniform(5, 2), 1e-6
    Y = np.stack([np.sin(4 * U[:, 0]), U[:, 1]], 1)
    for told in (0, 6):
        data = Dataset(tuple(range(1, told + 1)), U[:told], Y[:told], V[:2])
        belief = Believer(priors=priors).fit(problem, data, imagine=False)
        mean, deviation, by_mean, _ = belief.moments_and_slopes(V)
        for j, (prior, shift) in enumerate(zip(priors, MEANS.values(), strict=True)):
            own = [shift(problem.from_unit(points)) for points in (U[:told], V)]
            noise = problem.noise[j]
            wanted = conditioned(replace(prior, mean=0.0), noise, U[:told], Y[:told, j] - own[0], V)
            assert mean[:, j] == pytest.approx(wanted[0] + own[1], rel=1e-9)
            assert deviation[:, j] == pytest.approx(wanted[1], rel=1e-7)
        ahead, behind = (belief.moments(V + side * step * np.eye(2)[0])[0] for side in (1, -1))
        assert by_mean[..., 0] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-5)
        imagined = Believer(priors=priors).fit(problem, data)
        assert imagined.moments(V)[0] == pytest.approx(mean, abs=1e-6)
        assert (imagined.moments(V[:2])[1] < deviation[:2]).all()
        drawn = Paths.of(belief, 300, Stream(3)).values(V).mean(0)
        assert drawn == pytest.approx(mean, abs=5 * deviation.max() / np.sqrt(300))


def test_algorithm_1_with_all_its_inputs(tmp_path: Path) -> None:
    """A mean, a covariance, the noise, the levels of Lemma 1, nothing told: the first point is the prior's best."""
    problem, priors = of_formulas()
    solver = paper(priors, level=confidence(0.1, 100, 1))
    address, grid = f"sqlite:///{tmp_path / 'lab.db'}", Stream(0).sobol(4096, 2)
    with Study(problem, name="a", store=address, seed=1, initial=0, solver=solver) as study:
        trial = study.ask()
        study.tell(trial, {"rate": 8.0, "share": 0.1})
    with Study(problem, name="a", store=address) as study:
        assert study.solver == solver
        study.ask()
    best = MEANS["rate"](problem.from_unit(grid)).max()  # deviations are the same everywhere
    assert MEANS["rate"](np.array([[trial.x["k"], trial.x["z"]]])).item() >= best - 0.05


def test_bounds_of_a_stated_process_hold_as_often_as_they_say_for_draws_of_it() -> None:
    prior, grid = Prior(2.0, 0.3, mean=1.0), np.linspace(0.0, 1.0, 41)[:, None]
    root = np.linalg.cholesky(covariance(prior, grid, grid) + 1e-8 * np.eye(41))
    held = []
    for draw in range(60):
        h = prior.mean + root @ Stream(draw).normal(41)
        rows = Stream(draw).at("rows").uniform(4, 1)[:, 0] * 41
        at = np.unique(rows.astype(int))
        y = h[at] + 0.1 * Stream(draw).at("noise").normal(len(at))
        mean, deviation = (each[:, 0] for each in stated(grid[at], y[:, None], (prior,), (0.1,)).moments(grid))
        held.append((np.abs(h - mean) <= normal(0.95) * deviation).mean())
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)


def paper(priors, **settings) -> CUQB:
    """Algorithm 1 with a stated belief and bounds in closed form."""
    solver = CUQB.paper()
    estimator = replace(solver.believer.estimator, closed_forms=True)
    return replace(solver, believer=replace(solver.believer, priors=priors, estimator=estimator), **settings)


def test_algorithm_1_begins_at_the_prior_and_goes_where_its_bounds_say(tmp_path: Path) -> None:
    """No initial design: each trial is the best point of a fine grid by upper bounds of an independent computation."""
    priors = (Prior(1.0, 0.25), Prior(0.5, 0.4, mean=0.2))
    problem = Problem({"x": (0.0, 1.0)}, ["y", "w"], maximize="y - x", subject_to=["w >= 0.1 + 0.3*x"], noise=0.05)
    grid, address = np.linspace(0.0, 1.0, 2001)[:, None], f"sqlite:///{tmp_path / 'lab.db'}"
    told = []
    for number in range(6):
        solver = paper(priors, level=(0.9, 0.95)) if number == 0 else None
        with Study(problem, name="a", store=address, seed=1, initial=0, solver=solver) as study:
            trial = study.ask()
            x = trial.x["x"]
            study.tell(trial, {"y": np.sin(7 * x), "w": 0.6 - x})
        assert trial.why.aim == "explore"
        U = np.array([each for each, _ in told]).reshape(-1, 1)
        Y = np.array([each for _, each in told]).reshape(-1, 2)
        (m, s), (n, q) = (conditioned(prior, 0.05, U, Y[:, j], grid) for j, prior in enumerate(priors))
        upper, limit = m - grid[:, 0] + normal(0.9) * s, n - 0.1 - 0.3 * grid[:, 0] + normal(0.95) * q
        assert np.interp(x, grid[:, 0], limit) >= -1e-3
        assert np.interp(x, grid[:, 0], upper) >= upper[limit >= 0].max() - 0.02 * np.ptp(upper)
        told.append((x, (np.sin(7 * x), 0.6 - x)))


def test_nothing_is_fitted_and_a_stored_study_keeps_its_prior(tmp_path: Path) -> None:
    address, solver = f"sqlite:///{tmp_path / 'lab.db'}", CUQB(believer=Believer(priors=(Prior(4.0, (0.4, 0.6)),)))
    problem = hill()
    with Study(problem, name="a", store=address, seed=1, initial=1, solver=solver) as study:
        study.run(4)
    with Study(problem, name="a", store=address) as study:
        assert study.solver == solver
        study.run(2)
        (choice,) = study.snapshot.belief.choices
        assert np.exp(choice.theta[:2]) == pytest.approx([0.4, 0.6])
        assert len(study.trials) == 6
        assert str(study.result())


def test_what_cannot_be_a_prior_of_a_problem_is_refused() -> None:
    for wrong, words in (
        ({"deviation": 0.0}, "deviation of a prior is positive"),
        ({"length_scales": (0.1, -1.0)}, "length_scales of a prior is positive"),
        ({"kernel": "matern"}, "unknown kernel 'matern'"),
        ({"mean": np.nan}, "the mean of a prior is a finite number, or a formula as text"),
        ({"mean": lambda x: x}, "the mean of a prior is a finite number, or a formula as text"),
    ):
        with pytest.raises(SettingError, match=words):
            Prior(**({"deviation": 1.0, "length_scales": 0.3} | wrong))
    exact, one = Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", noise=0), Prior(1.0, 0.3)
    for problem, priors, words in (
        (exact, (one, one), "2 priors are given for 1 outputs"),
        (exact, Prior(1.0, (0.3, 0.3)), "has 2 length scales for 1 variables"),
        (exact, Prior(1.0, 0.3, mean="2*y"), "is a formula in the variables.* needs the output 'y'"),
        (Problem({"x": (0.0, 1.0)}, ["y"], maximize="y"), one, "state its noise, too"),
    ):
        with pytest.raises(SettingError, match=words):
            Study(problem, solver=CUQB(believer=Believer(priors=priors))).ask()
    with pytest.raises(SettingError, match=r"at least 2 points, got 0: only a stated belief, Believer\(priors=...\)"):
        Study(exact, initial=0)


def test_labels_are_as_far_apart_as_their_length_scale_says() -> None:
    problem = Problem({"x": (0.0, 1.0), "kind": Choice("a", "b", "c")}, ["y"], maximize="y", noise=0)
    at = problem.to_unit(np.array([[0.5, 0.0], [0.5, 1.0]]))
    deviations = []
    for scale in (0.2, 5.0):
        believer = Believer(priors=Prior(1.0, (0.3, scale)))
        data = Dataset((1,), at[:1], np.ones((1, 1)), at[:0])
        deviations.append(believer.fit(problem, data).moments(at[1:])[1].item())
    assert deviations[0] > 2 * deviations[1]
