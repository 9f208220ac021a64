"""Correlated outputs: against GPyTorch's multi-task process, one large matrix with missing values, and sampling."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy import ndarray

import pied
from beliefs import SCALES, numeric_slope
from pied.bounds import Believer, optimistic, quantile
from pied.bounds.believer import Widened
from pied.bounds.composite import Composite
from pied.bounds.joint import Joint
from pied.errors import SettingError
from pied.gp import GP, Model, ModelChoice
from pied.rng import Stream

NUGGET = 1e-9
V = Stream(0).at("elsewhere").sobol(5, 2)
B = np.array([[2.0, 1.1, -0.6], [1.1, 1.5, 0.4], [-0.6, 0.4, 0.9]])
PLAIN = Model(("matern 5/2",), ("none",), ("none",), ("plain",), (NUGGET, NUGGET), declustering=None)
EVERYTHING = {"active": np.ones((3, 2), dtype=bool), "ratios": np.ones(2)}


def told(n: int = 14, m: int = 3) -> tuple[ndarray, ndarray]:
    """Points, and outputs that are mixtures of three hidden functions."""
    U = Stream(3).at("told").sobol(n, 2)
    return U, outputs(U, m)


def outputs(U: ndarray, m: int = 3) -> ndarray:
    hidden = np.stack([np.sin(4 * U[:, 0] + U[:, 1]), U[:, 1] ** 2 - U[:, 0], np.cos(5 * U[:, 0] * U[:, 1])], -1)
    return hidden @ np.cos(np.arange(3 * m) ** 2).reshape(3, m)


def intrinsic(U: ndarray, Y: ndarray) -> GP:
    """The process with mean 0 and covariance k(x, x') B: each output is a mixture of those before it."""
    root = np.linalg.cholesky(B)
    weights = np.eye(3) - np.linalg.inv(root / np.diagonal(root))
    theta = (*map(math.log, SCALES), math.log(NUGGET))
    usual = ModelChoice("matern 5/2", "none", "none", "plain", theta, 99, 99)
    choices = [replace(usual, parents=tuple(range(j)), weights=tuple(weights[j, :j])) for j in range(3)]
    gp = GP.at_choices(U, Y, choices, noise=(0.0,) * 3, model=PLAIN, **EVERYTHING)
    (block,) = gp.blocks  # rests are standardized, and their variances learned: both are taken back
    y = block.tasks.y + (gp.location / gp.deviation)[:, None, None] * block.tasks.rows[:, :, None]
    variance = (np.diagonal(root) / gp.deviation) ** 2
    block = replace(block, variance=variance[:, None], tasks=replace(block.tasks, y=y))
    return replace(gp, blocks=(block,), location=np.zeros(3))


def covariance(gp: GP, U: ndarray) -> ndarray:
    """Covariances of the outputs at points."""
    root = gp.mixing * gp.moments(U)[1][:, None]
    return root @ root.swapaxes(1, 2)


def kernel(A: ndarray, C: ndarray) -> ndarray:
    r = np.sqrt(5.0 * (((A[:, None] - C) / np.array(SCALES)) ** 2).sum(-1))
    return (1 + r + r**2 / 3) * np.exp(-r)


@pytest.mark.parametrize("told_of_last", [14, 5])
def test_posterior_is_that_of_one_large_matrix_also_where_an_output_was_told_rarely(told_of_last: int) -> None:
    U, Y = told()
    Y[told_of_last:, 2] = np.nan
    rows, which = np.nonzero(np.isfinite(Y))
    K = kernel(U[rows], U[rows]) * B[np.ix_(which, which)] + NUGGET * np.eye(len(rows))
    each = kernel(V, U[rows])[:, :, None] * B[which]  # b told m
    gp = intrinsic(U, Y)
    np.testing.assert_allclose(
        gp.moments(V)[0], np.einsum("btm,t->bm", each, np.linalg.solve(K, Y[rows, which])), atol=1e-5
    )
    wanted = B - np.einsum("btm,bts->bms", each, np.linalg.solve(K, each))
    np.testing.assert_allclose(covariance(gp, V), wanted, atol=1e-5)
    np.testing.assert_allclose(gp.marginals(V)[1], np.sqrt(np.einsum("bmm->bm", wanted)), atol=1e-5)


@pytest.mark.slow
def test_posterior_is_that_of_the_multi_task_process_of_gpytorch() -> None:
    torch, gpytorch = pytest.importorskip("torch"), pytest.importorskip("gpytorch")
    U, Y = told()

    class Tasks(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(torch.tensor(U), torch.tensor(Y), likelihood)
            inner = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=2)
            self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ZeroMean(), 3)
            self.covar_module = gpytorch.kernels.MultitaskKernel(inner, 3, rank=3)
            self.double()
            inner.lengthscale = torch.tensor(SCALES, dtype=torch.float64)
            self.covar_module.task_covar_module.covar_factor.data = torch.tensor(np.linalg.cholesky(B))
            self.covar_module.task_covar_module.var = torch.full((3,), 1e-12, dtype=torch.float64)

        def forward(self, X):
            return gpytorch.distributions.MultitaskMultivariateNormal(self.mean_module(X), self.covar_module(X))

    words = {"num_tasks": 3, "has_task_noise": False, "noise_constraint": gpytorch.constraints.GreaterThan(1e-12)}
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(**words).double()
    likelihood.noise = NUGGET
    model = Tasks(likelihood).eval()
    gp = intrinsic(U, Y)
    for u, mean, wanted in zip(V, gp.moments(V)[0], covariance(gp, V), strict=True):
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            theirs = model(torch.tensor(u[None]))
        np.testing.assert_allclose(mean, theirs.mean[0], atol=1e-4)
        np.testing.assert_allclose(wanted, theirs.covariance_matrix, atol=1e-4)


def mixed(**words) -> GP:
    """A belief that has found five mixtures, and one output that was told rarely."""
    U, Y = told(16, 5)
    Y[8:, 4] = np.nan
    return GP.fit(U, Y, **({"model": Model(correlated="all")} | words))


def test_mixtures_are_found_and_explain_values_that_are_missing() -> None:
    U, Y = told(16, 5)
    gp, alone = mixed(), mixed(model=Model(correlated="none"))
    partial = mixed(model=Model())
    assert [bool(each.parents) for each in partial.choices] == [False] * 4 + [True]
    assert gp.choices[4].parents
    assert alone.mixing is None
    missed = [np.abs(each.unwarp(each.moments(U[8:])[0])[:, 4] - Y[8:, 4]).max() for each in (gp, alone)]
    assert missed[0] < 1e-4 < missed[1]
    again = mixed(previous=gp.choices)
    assert [each.parents for each in again.choices] == [each.parents for each in gp.choices]
    stored = [ModelChoice.from_dict(json.loads(json.dumps(each.to_dict()))) for each in gp.choices]
    assert tuple(stored) == gp.choices


def test_outputs_that_have_nothing_in_common_stay_independent() -> None:
    values = Stream(5).at("noise").normal(12, 24)
    assert GP.fit(Stream(4).at("told").sobol(12, 4), values, model=Model(correlated="all")).mixing is None


def test_what_is_imagined_narrows_the_belief_and_keeps_its_mean() -> None:
    gp = mixed()
    missing = np.array([[False] * 4 + [True]] * 2 + [[True] * 5] * 3)
    after = gp.imagine(V, missing)
    np.testing.assert_allclose(after.moments(V)[0], gp.moments(V)[0], atol=1e-5)
    before, deviation = gp.marginals(V)[1], after.marginals(V)[1]
    assert (deviation <= before * (1 + 1e-6)).all()
    assert (deviation[2:] < 0.01 * before[2:] + 1e-6).all()
    wider = gp.widened(np.array([1.0, 2.0, 1.0, 3.0, 1.0]), np.array([1.0, 2.0, 1.0, 3.0, 1.0]))
    assert (wider.marginals(V)[1] >= before * np.array([1.0, 2.0, 1.0, 3.0, 1.0]) * (1 - 1e-9)).all()


PROBLEM = pied.Problem(
    {"p": (0.0, 1.0), "q": (0.0, 1.0)}, ["a", "b", "c"],
    maximize=lambda x, y: 2 * y.a - x.p * y.b + 0.5 * y.c,
    subject_to={
        "single": lambda x, y: np.exp(y.c) - x.q,
        "squares": lambda x, y: 1.0 - ((y.array - np.array([0.3, 1.2, 0.1])) ** 2).sum(-1),
    },
    noise=0,
)  # fmt: skip


def composed(belief=None) -> Composite:
    return Composite(PROBLEM, belief or intrinsic(*told(6)), Stream(0))


@pytest.mark.parametrize("factor", [1.0, np.array([1.0, 2.0, 0.5])])
def test_bounds_are_those_of_samples_of_the_joint_normal(factor) -> None:
    gp = intrinsic(*told(6))
    rng, level = np.random.default_rng(0), 0.9
    lower, _, upper = composed(Widened(gp, factor)).bounds(V, level)
    for u, low, high in zip(V, lower, upper, strict=True):
        root = np.linalg.cholesky(covariance(gp, u[None])[0]) * (factor * np.ones(3))[:, None]
        y = gp.moments(u[None])[0] + rng.normal(size=(100_000, 3)) @ root.T
        G = np.stack(PROBLEM.g(u[None], y[:, None]), -1)[:, 0]
        allowed = np.array([0.02, 0.02, 0.1]) * G.std(0)  # 512 samples of the last
        assert (np.abs(np.quantile(G, 1 - level, 0) - low) < allowed).all()
        assert (np.abs(np.quantile(G, level, 0) - high) < allowed).all()
        affine = np.array([2.0, -u[0], 0.5])
        away = quantile.normal(level) * np.linalg.norm(affine @ root)
        np.testing.assert_allclose(high[0], affine @ gp.moments(u[None])[0][0] + away, rtol=1e-9)
        assert upper.shape == (5, 3)


def test_slopes_of_bounds_and_of_joint_outcomes_are_those_of_differences() -> None:
    bounds = optimistic(composed(), 0.95)
    values, slopes = bounds.values_and_slopes(V[:2])
    for u, f, own in zip(V, values, slopes, strict=False):
        wanted = numeric_slope(lambda each: bounds.values_and_slopes(each[None])[0][0], u)
        np.testing.assert_allclose(own, wanted, atol=1e-5 * np.abs(f).max())
    joint = Joint(composed(), 1.6)
    W = np.concatenate([V, 0.5 + 0.4 * V, 0.6 - 0.3 * V[:, :1]], 1)[:2]
    for w, own in zip(W, joint.values_and_slopes(W)[1], strict=True):
        np.testing.assert_allclose(own, numeric_slope(lambda each: joint.values(each[None])[0], w), atol=1e-5)


def test_a_study_with_correlated_outputs_proposes_the_same_after_it_was_closed(tmp_path) -> None:
    words = {"maximize": lambda x, y: -(y.array**2).sum(-1), "noise": 0}

    def black(x) -> ndarray:
        return outputs(np.array([[x["p"], x["q"]]]), 4)[0]

    problem = pied.Problem({"p": (0.0, 1.0), "q": (0.0, 1.0)}, ["a", "b", "c", "d"], blackbox=black, **words)
    solver = pied.CUQB(believer=Believer(Model(correlated="all")))
    study = pied.Study(problem, store=f"sqlite:///{tmp_path}/s.db", name="s", seed=1, solver=solver)
    study.run(11)
    whole = pied.Study(problem, seed=1, solver=solver)
    whole.run(13)
    assert any(each["parents"] for each in study.trials[-1].why.memory["choices"])
    with pied.Study(problem, store=f"sqlite:///{tmp_path}/s.db", name="s") as again:
        again.run(2)
        assert again.trials[-1].x == pytest.approx(whole.trials[-1].x, abs=1e-6)


def test_a_word_that_is_not_known_is_refused() -> None:
    with pytest.raises(SettingError, match="unknown word for correlated outputs"):
        Model(correlated="some")
    assert pied.CUQB.paper().believer.model.correlated == "none"
