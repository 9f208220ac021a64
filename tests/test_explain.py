"""Why a trial is proposed, in words, and which settings matter, against indices of the truth."""

import numpy as np
import pytest

import pied
from decisions import mixed, outputs, study
from pied import SettingError
from pied.rng import Stream
from pied.study import tops

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def early():
    return study(budget=0, older=7)


def test_an_open_trial_is_explained_in_words(early):
    trial = early.ask()
    found = early.explain(trial)
    assert found.hoped[0] <= found.hoped[1]
    assert 0 <= found.improves <= 1
    assert sum(found.outputs.values()) == pytest.approx(1)
    assert found.outputs["waste"] == pytest.approx(0)  # the profit does not depend on it
    text = str(found)
    assert "Hoped for: profit" in text
    assert "probability" in text
    assert "change" in found.lines[-1]
    assert early.explain(trial.number).to_dict()["trial"] == trial.number


def test_only_what_is_to_be_measured_is_explained(early):
    with pytest.raises(SettingError, match="only one that was proposed"):
        early.explain(1)


def test_a_measured_trial_names_the_bound_that_its_value_refuted():
    """Values below all bounds refute none; one far above them refutes the smallest that counted."""
    made = pied.Study(pied.Problem({"a": (0, 1)}, ["y"], maximize="y", noise=0), seed=2)
    for _ in range(made.initial + 4):
        trial = made.ask()
        made.tell(trial, {"y": np.sin(5.0 * trial.x["a"])})
    assert "refuted" not in str(made.explain(trial))
    trial = made.ask()
    least = min(top.value for top in tops(made.trials) if top is not None and top.is_shown)
    made.tell(trial, {"y": least + 1.0}, anyway=True)
    found = made.explain(trial.number)
    assert "refuted what trial" in found.lines[-1]
    assert f"at most {least:.6g}" in found.lines[-1]
    assert found.to_dict()["improves"] is None


def test_a_limit_in_doubt_is_named():
    made = pied.Study(study(budget=0, older=0).problem, seed=0)
    for a in (0.0, 0.3, 1.0):
        made.add([a, a], outputs(a, a))
    found = [made.explain(made.ask()) for _ in range(4)]
    assert any("waste limit" in str(each) for each in found)


def true_indices(function, d, name):
    """Total Sobol indices of a function by many points (Jansen)."""
    base = Stream(9).at("truth").sobol(2**13, 2 * d)
    A, B = base[:, :d], base[:, d:]
    first = function(*A.T)[name]
    found = []
    for j in range(d):
        C = A.copy()
        C[:, j] = B[:, j]
        found.append(0.5 * ((function(*C.T)[name] - first) ** 2).mean() / first.var())
    return np.array(found)


@pytest.mark.parametrize("name", ["product", "waste"])
def test_importance_is_that_of_the_truth(name):
    found = study(budget=0, older=20).importance()
    assert list(found[name].values()) == pytest.approx(true_indices(outputs, 2, name), abs=0.05)


@pytest.mark.parametrize("name", ["booth", "styblinski-tang", "environmental"])
def test_importance_is_that_of_the_truth_on_the_suite(name):
    known = pied.suite[name]
    problem = known.problem
    made = pied.Study(problem, seed=0)
    U = Stream(2).sobol(40, problem.d)
    for u in U:
        x = problem.named_x(problem.natural(u))
        made.add(dict(x), problem.evaluate(x))

    def truth(*columns):
        X = problem.from_unit(np.stack(columns, 1))
        Y = np.array([problem.evaluate(x) for x in X])
        return {name: Y[:, j] for j, name in enumerate(problem.outputs)}

    def few(*columns):
        return truth(*(each[:512] for each in columns))

    found = made.importance()
    name = problem.outputs[0]
    base = Stream(9).at("truth").sobol(512, 2 * problem.d)
    A, B = base[:, : problem.d], base[:, problem.d :]
    first = few(*A.T)[name]
    for j, share in enumerate(found[name].values()):
        C = A.copy()
        C[:, j] = B[:, j]
        true = 0.5 * ((few(*C.T)[name] - first) ** 2).mean() / first.var()
        assert share == pytest.approx(true, abs=0.15)


def test_importance_of_integers_and_choices():
    found = mixed().importance()["yield"]
    assert found["tanks"] > found["T"]
    assert set(found) == {"tanks", "solvent", "T"}
