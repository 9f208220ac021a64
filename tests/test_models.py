"""Models of outputs: what is known of them beforehand, as a part of their trend."""

from pathlib import Path

import numpy as np
import pytest

from pied import Choice, PiedError, Problem, Study
from pied.bounds import Believer, known_of
from pied.gp import GP, Model, ModelChoice
from pied.gp.kernels import KERNELS
from pied.problem import Models
from pied.records import Dataset
from pied.rng import Stream
from pied.study.following import followed

BOX = {"a": (0.2, 2.0), "b": (1.0, 3.0)}
LEARNED = Model(kernels=("matern 5/2",), waves=False, declustering=None)


def plant(x):
    """Two outputs near to what is known of them."""
    return {"y": np.exp(x.a) * x.b + 0.1 * np.sin(3 * x.a), "z": 1.3 * x.a**2 + x.b}


def stated(models=None, **words):
    problem = {"blackbox": plant, "maximize": "y - z**2", "subject_to": {"c": "z <= 4"}, "noise": 0, "models": models}
    return Problem(BOX, ["y", "z"], **{**problem, **words})


def told(problem, count=12):
    """Points of the unit cube and what is measured there."""
    U = Stream(5).sobol(count, problem.d)
    return U, np.array([problem.evaluate(x) for x in problem.from_unit(U)])


def chosen(trend, warp="none", scales=(0.4, 0.9), nugget=1e-8):
    return ModelChoice("matern 5/2", trend, warp, "plain", (*np.log(scales), np.log(nugget)), 0, 0)


def at(problem, U, Y, choices, known):
    words = {"active": problem.active, "ratios": np.ones(problem.d), "noise": (None, None), "model": LEARNED}
    return GP.at_choices(U, Y, choices, known=known, **words)


def textbook(U, y, columns, V, columns_V, scales, nugget):
    """Universal kriging with any columns, written down once more: mean and deviation."""

    def k(A, B):
        r = np.sqrt((((A[:, None] - B) / np.array(scales)) ** 2).sum(-1))
        return (1 + np.sqrt(5) * r + 5 * r * r / 3) * np.exp(-np.sqrt(5) * r)

    K = k(U, U) + nugget * np.eye(len(U))
    inverse = np.linalg.inv(K)
    A = np.linalg.inv(columns.T @ inverse @ columns)
    beta = A @ columns.T @ inverse @ y
    rest = y - columns @ beta
    variance = rest @ inverse @ rest / (len(y) - columns.shape[1])
    r = columns_V.T - columns.T @ inverse @ k(U, V)
    left = 1 - (k(V, U) @ inverse * k(V, U)).sum(1) + (r * (A @ r)).sum(0)
    return columns_V @ beta + k(V, U) @ inverse @ rest, np.sqrt(variance * left)


@pytest.mark.parametrize("trend", ["model", "model, linear", "scaled model"])
@pytest.mark.parametrize("warp", ["none", "log"])
def test_a_model_is_a_part_of_the_trend_as_in_the_textbook(trend: str, warp: str) -> None:
    problem = stated({"y": "exp(a)*b"})
    U, Y = told(problem)
    V = Stream(6).uniform(7, 2)
    belief = at(problem, U, Y, [chosen(trend, warp), chosen("constant")], known_of(problem))
    w = np.log if warp == "log" else np.asarray
    (m, m_V) = (w(np.exp(X[:, 0]) * X[:, 1]) for X in (problem.from_unit(U), problem.from_unit(V)))
    one, one_V, y = np.ones((len(U), 1)), np.ones((len(V), 1)), w(Y[:, 0])
    if trend == "scaled model":
        wanted = textbook(U, y, np.c_[one, m], V, np.c_[one_V, m_V], (0.4, 0.9), 1e-8)
    else:
        is_linear = trend != "model"
        F, F_V = (np.c_[one, U], np.c_[one_V, V]) if is_linear else (one, one_V)
        mean, deviation = textbook(U, y - m, F, V, F_V, (0.4, 0.9), 1e-8)
        wanted = mean + m_V, deviation
    warp_unit = np.log(belief.warps[0].unit) if warp == "log" else 0.0
    mean, deviation, by_mean, by_deviation = belief.moments_and_slopes(V)
    assert mean[:, 0] + warp_unit == pytest.approx(wanted[0], rel=1e-7)
    assert deviation[:, 0] == pytest.approx(wanted[1], rel=1e-5)
    for j in range(2):  # slopes against differences
        step = np.zeros(2)
        step[j] = 1e-5
        low, high = belief.moments(V - step), belief.moments(V + step)
        assert by_mean[:, :, j] == pytest.approx((high[0] - low[0]) / 2e-5, rel=1e-4, abs=1e-5)
        assert by_deviation[:, :, j] == pytest.approx((high[1] - low[1]) / 2e-5, rel=1e-3, abs=1e-5)


def test_the_belief_about_what_a_model_leaves_is_that_of_gpytorch() -> None:
    pytest.importorskip("gpytorch")
    from gpytorch_oracle import Exact

    problem = stated({"y": "exp(a)*b"})
    U, Y = told(problem)
    V = Stream(6).uniform(7, 2)
    belief = at(problem, U, Y, [chosen("model", nugget=1e-4), chosen("constant")], known_of(problem))
    X, X_V = problem.from_unit(U), problem.from_unit(V)
    rest = Y[:, 0] - np.exp(X[:, 0]) * X[:, 1]
    K_inverse = np.linalg.inv(_matern(U) + 1e-4 * np.eye(len(U)))
    mean = (K_inverse.sum(0) @ rest) / K_inverse.sum()
    variance = float(belief.variance[0] * belief.deviation[0] ** 2)
    oracle = Exact(U, rest, "matern 5/2", variance, (0.4, 0.9), 1e-4 * variance, float(mean))
    wanted = oracle.moments(V)[0] + np.exp(X_V[:, 0]) * X_V[:, 1]
    assert belief.moments(V)[0][:, 0] == pytest.approx(wanted, rel=1e-7)


def _matern(U):
    r = np.sqrt((((U[:, None] - U) / np.array([0.4, 0.9])) ** 2).sum(-1))
    s, _, c1, c2, *_ = KERNELS["matern 5/2"]
    return (1 + s * r * (c1 + c2 * s * r)) * np.exp(-s * r)


def test_a_good_model_is_followed_and_a_wrong_one_left_out() -> None:
    for models, follows in (({"y": "exp(a)*b"}, True), ({"y": "sin(9*a)*cos(7*b)"}, False)):
        problem = stated(models)
        U, Y = told(problem, 9)
        (found,) = followed(problem, _data(U, Y), Believer().fit(problem, _data(U, Y)))
        assert found.follows is follows
        assert ("y follows its model; what is left is 0.0" in str(found)) is follows
    assert found.to_dict()["output"] == "y"


def _data(U, Y):
    return Dataset(tuple(range(len(U))), U, Y, U[:0])


def test_imagined_points_and_a_stored_choice_keep_the_model() -> None:
    problem = stated({"y": "exp(a)*b", "z": "1.3*a**2 + b"})
    U, Y = told(problem)
    data, believer = _data(U, Y), Believer()
    belief = believer.fit(problem, data)
    V = Stream(6).uniform(5, 2)
    more = belief.imagine(V[:2])
    assert more.moments(V)[0] == pytest.approx(belief.moments(V)[0], rel=1e-6)
    assert (more.moments(V)[1][:2] <= 1e-3 * belief.deviation).all()
    restored = [ModelChoice.from_dict(each.to_dict()) for each in belief.choices]
    assert believer.conditioned(problem, data, restored).moments(V)[0] == pytest.approx(belief.moments(V)[0], rel=1e-9)


def test_a_stored_study_keeps_its_models(tmp_path: Path) -> None:
    address, problem = f"sqlite:///{tmp_path / 'lab.db'}", stated({"y": "exp(a)*b"})
    points = problem.from_unit(Stream(5).sobol(6, 2))
    with Study(problem, name="a", store=address, seed=1, initial=2) as study:
        for x in points:
            study.add(x, problem.evaluate(x))
        wanted = study.ask().x.array
        (line,) = (each for each in study.result().remarks() if "model" in each)
        assert line.startswith("y follows its model; what is left is 0.")
        assert line in str(study.result())
    with Study(stated({"y": "exp(a)*b"}), name="a", store=address) as study:
        assert len(study.questions) == 1
        assert study.trials[-1].x.array == pytest.approx(wanted)
        study.revise(models={"y": "exp(a)*b + 1"})
        assert [each.statement["models"][0]["formula"] for each in study.questions] == ["exp(a)*b", "exp(a)*b + 1"]


def test_every_way_to_state_a_model_gives_the_same() -> None:
    sympy = pytest.importorskip("sympy")
    a, b = sympy.symbols("a b")
    X = stated().from_unit(Stream(1).uniform(6, 2))
    wanted = np.stack([np.exp(X[:, 0]) * X[:, 1], X[:, 0] ** 2 + np.exp(X[:, 0]) * X[:, 1]], 1)

    def slow(x):
        return {"y": float(np.exp(x.a)) * x.b if x.a > 0 else 0.0, "z": x.a**2 + float(np.exp(x.a)) * x.b}

    ways = [
        {"y": "exp(a)*b", "z": "a**2 + y"},
        {"z": lambda a, b: a**2 + np.exp(a) * b, "y": lambda x: np.exp(x.a) * x.b},
        {"y": sympy.exp(a) * b, "z": a**2 + sympy.exp(a) * b},
        lambda x: {"y": np.exp(x.a) * x.b, "z": x.a**2 + np.exp(x.a) * x.b},
        lambda x: [np.exp(x.a) * x.b, x.a**2 + np.exp(x.a) * x.b],
        slow,
    ]
    for given in ways:
        models = stated(given).models
        assert isinstance(models, Models)
        values, slopes = models.values_and_slopes(X)
        assert values == pytest.approx(wanted)
        assert models.values(X) == pytest.approx(wanted)
        assert slopes[:, 1, 0] == pytest.approx(2 * X[:, 0] + np.exp(X[:, 0]) * X[:, 1], rel=1e-6)
        assert models.is_quick is (given is not slow)
    described = stated(None, blackbox=None).revised(outputs={"y": {"model": "exp(a)*b"}, "z": {"unit": "m"}})
    assert described.models is not None
    assert described.statement()["models"][0]["formula"] == "exp(a)*b"


def test_what_stands_for_a_slow_model_has_its_values_and_slopes() -> None:
    calls = []

    def slow(x):
        calls.append(x)
        return float(np.exp(x.a)) * x.b if x.kind == "n" else float(np.sin(x.a)) + x.b

    kinds = {**BOX, "kind": Choice("n", "m")}
    problem = Problem(kinds, ["y"], maximize="y", noise=0, models={"y": slow})
    known = known_of(problem)
    U = np.c_[Stream(2).uniform(20, 2), np.repeat([0.0, 1.0], 10)]
    count = len(calls)
    values, slopes = known.values_and_slopes(U)
    assert len(calls) == count  # it is not called any more
    X = problem.from_unit(U)
    is_n = U[:, 2] == 0
    wanted = np.where(is_n, np.exp(X[:, 0]) * X[:, 1], np.sin(X[:, 0]) + X[:, 1])
    assert values[:, 0] == pytest.approx(wanted, abs=1e-3)
    assert known.values(U) == pytest.approx(values)
    by_a = np.where(is_n, np.exp(X[:, 0]) * X[:, 1], np.cos(X[:, 0])) * 1.8
    assert slopes[:, 0, 0] == pytest.approx(by_a, abs=0.05)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"w": "a"}, "models names 'w', which is not an output"),
        ({"y": "z + a"}, "uses the output 'z', which has no model"),
        ({"y": "y + a"}, "needs the output 'y' itself"),
        ({"y": "z", "z": "y"}, "need each other"),
        ({"y": "log(-a)"}, "is not a number at any of"),
        ({"y": 3}, "should be a formula or a function of x"),
        (3, "models should be {output: formula or function of x}"),
        ({}, "models is empty"),
        ({"y": lambda p, q: p}, "The model of 'y'.*needs|The model of 'y': it should be a function of one argument"),
    ],
)
def test_what_cannot_be_a_model_is_refused(models, words: str) -> None:
    with pytest.raises(PiedError, match=words):
        stated(models)
