"""Posteriors of parameters: closed forms, sampling of the black box, and quadrature on the true simulator."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import pied
from pied.errors import SettingError, TellError
from pied.problem import squares_of
from pied.rng import Stream
from pied.study.ensemble import drawn
from pied.study.likelihood import Discrepancy, Likelihood
from pied.study.posterior import read
from shells import data, pied_

TIMES = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
OUTPUTS = [f"y{i}" for i in range(len(TIMES))]
DATA = (0.24, 0.4, 0.58, 0.68, 0.64)


def course(a, k):
    """Return a concentration that rises with the rate k and falls slowly."""
    return a * (1 - np.exp(-k * TIMES)) * np.exp(-0.05 * TIMES)


def rising(budget=14, **words):
    """Return a study of two parameters of a course, evaluated at points that fill the box."""
    study = pied.Study(
        pied.Problem(
            {"a": (0.5, 1.5), "k": pied.Variable(0.1, 2.0, log=True)},
            OUTPUTS,
            minimize="sum((outputs - data)^2)",
            constants={"data": DATA},
            noise=0,
            **words,
        ),
        solver="sobol",
        seed=1,
    )
    for _ in range(budget):
        trial = study.ask()
        study.tell(trial, course(**trial.x))
    return study


@pytest.fixture(scope="module")
def study():
    return rising()


@pytest.fixture(scope="module")
def posterior(study):
    return study.posterior(sigma=0.05)


def truth(sigma=0.05, prior=lambda a, k: 0.0):
    """Return quantiles of both parameters by quadrature on the true simulator."""
    a, k = np.meshgrid(np.linspace(0.5, 1.5, 400), np.geomspace(0.1, 2.0, 400), indexing="ij")
    Y = a[..., None] * (1 - np.exp(-k[..., None] * TIMES)) * np.exp(-0.05 * TIMES)
    log_density = -0.5 * ((Y - DATA) ** 2).sum(-1) / sigma**2 + prior(a, k)
    density = np.exp(log_density - log_density.max())
    found = {}
    for name, values, axis in (("a", a[:, 0], 1), ("k", k[0], 0)):
        share = np.cumsum(density.sum(axis)) / density.sum()
        found[name] = np.interp([0.05, 0.5, 0.95], share, values)
    return found


def check(posterior, expected):
    """Quantiles lie within a quarter of the deviation, four standard errors of these tails of a thousand draws."""
    for p, place in ((0.05, 0), (0.5, 1), (0.95, 2)):
        for name, own in posterior.quantile(p).items():
            assert abs(own - expected[name][place]) < 0.27 * posterior.deviation[name], (name, p)


def test_quantiles_are_those_of_the_true_simulator(posterior):
    assert posterior.is_converged
    assert posterior.emulator_share < 0.01
    assert not posterior.is_settled  # no evaluation lies among the draws
    check(posterior, truth())
    assert posterior.correlations["a", "k"] < -0.5
    text = str(posterior)
    assert "errors of 0.05" in text
    assert "R-hat" in text
    assert "<table>" in posterior._repr_html_()
    assert posterior.to_dict()["converged"]
    assert len(posterior.to_csv().splitlines()) == len(posterior.V) + 1


def test_a_stated_prior_is_in_natural_units(study):
    found = study.posterior(sigma=0.05, prior={"k": (0.4, 0.05)})
    check(found, truth(prior=lambda a, k: -0.5 * ((k - 0.4) / 0.05) ** 2 + np.log(k)))


def test_uncertainty_of_the_emulator_widens_and_is_told():
    few = rising(6)
    found = few.posterior(sigma=0.01)
    assert found.emulator_share > 0.3
    assert not found.is_settled
    assert found.deviation["a"] > 0.05  # 0.014 by the simulator itself
    trial = few.ask(for_posterior=found)
    assert trial.why.aim == "posterior"
    few.tell(trial, course(**trial.x))
    for a, k in ((0.87, 0.67), (0.875, 0.68), (0.88, 0.66), (0.868, 0.67), (0.82, 0.75), (0.95, 0.58)):
        few.add({"a": a, "k": k}, course(a, k))
    after = few.posterior(sigma=0.01)
    assert after.is_settled
    check(after, truth(0.01))


def test_the_likelihood_is_the_mean_over_what_the_black_box_may_be(study):
    rng = np.random.default_rng(0)
    snapshot = study.snapshot
    X = np.array([[1.0, 0.6]])
    Y, root = course(*X[0])[None] + 0.02, 0.04 * rng.standard_normal((1, 5, 5))
    draws = Y + np.einsum("bij,lj->lbi", root, rng.standard_normal((200_000, 5)))[:, :, :]
    deviations = 0.03 * np.ones((1, 5))
    for words, scale, sampled in (
        ({}, root, draws),
        ({}, deviations, Y + deviations * rng.standard_normal((200_000, 1, 5))),
    ):
        likelihood = Likelihood.of(
            snapshot.problem, snapshot.belief, snapshot.composite("t"), snapshot.data, read(sigma=0.05, **words)
        )
        known = likelihood.given(X, sampled, np.zeros((1, 5)), {})
        mean = np.log(np.exp(known - known.max()).mean(0)) + known.max()
        np.testing.assert_allclose(likelihood.given(X, Y, scale, {}), mean, atol=0.02)
    curve = Discrepancy(0.1, length=2.0, at=tuple(TIMES))
    likelihood = Likelihood.of(
        snapshot.problem, snapshot.belief, snapshot.composite("t"), snapshot.data,
        read(sigma=0.05, discrepancy=curve),
    )  # fmt: skip
    S = 0.05**2 * np.eye(5) + root[0] @ root[0].T + 0.01 * np.exp(-0.125 * (TIMES[:, None] - TIMES) ** 2)
    expected = multivariate_normal(np.zeros(5), S).logpdf(Y[0] - DATA)
    np.testing.assert_allclose(likelihood.given(X, Y, root, {}), expected, rtol=1e-9)


def test_linear_gaussian_problems_have_their_closed_form():
    A = np.random.default_rng(3).standard_normal((6, 2))
    y = A @ [0.4, -0.2] + 0.1
    problem = pied.Problem(
        {"a": (-5, 5), "b": (-5, 5)},
        [f"y{i}" for i in range(6)],
        maximize=lambda x, h: -0.5 * np.sum((h.array - y) ** 2 / 0.04),
        noise=0,
    )
    study = pied.Study(problem, solver="sobol", seed=0)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, A @ [trial.x["a"], trial.x["b"]])
    found = study.posterior(sigma=1)
    covariance = 0.04 * np.linalg.inv(A.T @ A)
    mean = np.linalg.solve(A.T @ A, A.T @ y)
    deviation = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(list(found.mean.values()), mean, atol=0.2 * deviation.max())
    np.testing.assert_allclose(list(found.deviation.values()), deviation, rtol=0.1)
    np.testing.assert_allclose(found.correlations["a", "b"], covariance[0, 1] / deviation.prod(), atol=0.08)
    at, height = found.profile("a")
    np.testing.assert_allclose(height, -0.5 * (at - mean[0]) ** 2 / covariance[0, 0], atol=0.15)
    whole = A.T @ A / 0.04
    expected = [1 - covariance[0, 0] / np.linalg.inv(whole - np.outer(a, a) / 0.04)[0, 0] for a in A]
    for name, share in found.informs["a"].items():
        assert abs(share - expected[int(name[1:])]) < 0.02
    bands = found.predict("a + y0", at={"b": [0.0, 1.0]})
    slope = np.array([1 + A[0, 0], 0.0])
    wanted = slope @ [mean[0], 0] + np.array([0.0, A[0, 1]])
    np.testing.assert_allclose(bands.median[:, 0], wanted, atol=0.2 * slope[0] * deviation[0])


def test_sums_of_squares_are_recognized_however_they_are_written():
    rng = np.random.default_rng(5)
    P = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    d, Y = np.array([0.3, -0.2, 1.0]), rng.standard_normal((20, 3))

    def squares(maximize=None, minimize=None):
        problem = pied.Problem({"x": (0, 1)}, ["u", "v", "w"], maximize=maximize, minimize=minimize)
        return squares_of(problem, np.zeros(3), np.ones(3), Y)

    X = np.array([[0.3], [0.8]])
    for own, expected in (
        (squares(minimize=lambda x, y: (y.array - d) @ P @ (y.array - d)), np.einsum("ni,ij,nj->n", Y - d, P, Y - d)),
        (squares(maximize="-0.5*((u - 1)^2/4 + (2*u - v + x)^2)"), None),
        (squares(minimize="2*(v - 1)^2 + 3*(w + 2*x)^2"), None),
    ):
        assert own is not None
        r, rest = own.residuals(X, np.broadcast_to(Y[:, None], (20, 2, 3)))
        found = (r**2).sum(-1) + rest
        if expected is not None:
            np.testing.assert_allclose(found, np.broadcast_to(expected[:, None], (20, 2)), atol=1e-8)
    for other in ("abs(u) + v^2", "u*v", "x*(u - 1)^2", "exp(u)", "v + w^2"):
        assert squares(minimize=other) is None


def test_two_parts_far_apart_have_their_shares():
    def density(V):
        one, two = (-0.5 * (((V - c) / 0.01) ** 2).sum(1) for c in (0.1, 0.9))
        return np.logaddexp(one, np.log(3) + two)

    shares = []
    for seed in range(3):
        chains = drawn(density, 2, np.zeros((0, 2)), Stream(seed), 300.0)
        shares.append((chains.V[..., 0] > 0.5).mean())
    assert abs(np.median(shares) - 0.75) < 0.15


def test_what_a_posterior_needs_is_said(study):
    with pytest.raises(SettingError, match="above 0"):
        study.posterior(sigma=-1)
    with pytest.raises(SettingError, match="mean, deviation"):
        study.posterior(sigma=1, prior={"k": 3})
    with pytest.raises(SettingError, match="more data than parameters"):
        study.posterior({"y0": 0.2, "y1": 0.4})
    with pytest.raises(SettingError, match="told apart"):
        study.posterior(discrepancy="learned")
    with pytest.raises(TellError, match="more complete evaluations"):
        pied.Study(study.problem).posterior(sigma=1)
    other = pied.Study(pied.Problem({"x": (0, 1)}, ["y"], minimize="exp(y)", noise=0), seed=0, solver="sobol")
    for _ in range(8):
        trial = other.ask()
        other.tell(trial, trial.x["x"] ** 2)
    with pytest.raises(SettingError, match="not a sum of squares"):
        other.posterior(sigma=1)
    found = other.posterior({"y": (0.25, 0.02)})
    assert abs(found.mean["x"] - 0.5) < 0.02
    assert not found.unidentified
    assert "hardly determine" in str(other.posterior({"y": 0.5}, sigma=2.0))


FILE = """
minimize = "(u - 0.8)^2 + (v - 0.5)^2 + (w - 0.3)^2"
[variables]
a = [0, 2]
k = [0, 2]
[outputs]
u = { noise = 0 }
v = { noise = 0 }
w = { noise = 0 }
[study]
seed = 1
"""


def test_the_shell_has_text_draws_and_a_picture(tmp_path):
    file, table, picture = (str(tmp_path / name) for name in ("fit.toml", "draws.csv", "pairs.svg"))
    (tmp_path / "fit.toml").write_text(FILE)
    rows = [f"{a},{k},{a + 0.1 * k * k},{a * k},{0.3 * k}" for a, k in 2 * Stream(1).sobol(12, 2)]
    (tmp_path / "old.csv").write_text("\n".join(["a,k,u,v,w", *rows]))
    pied_("add", file, str(tmp_path / "old.csv"))
    words = ("--sigma", "0.1", "--prior", "a=0.7:0.01", "--csv", table, "--plot", picture)
    found = data("posterior", file, *words)
    assert abs(found["parameters"][0]["median"] - 0.7) < 0.02
    assert "<svg" in (tmp_path / "pairs.svg").read_text()
    assert (tmp_path / "draws.csv").read_text().startswith("a,k\n")
    assert "NAME=VALUE" in pied_("posterior", file, "--data", "u", code=2).stderr
