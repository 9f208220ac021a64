"""Values that are known by a limit alone: "<0.05", ">100", "n.d."; and stated resolutions."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from pied import EvaluationError, Problem, StatementError, Study, TellError
from pied.errors import Contradiction
from pied.gp import GP, Model, ModelChoice
from pied.measured import Measured, identity, sided
from pied.problem import enclosed
from pied.records import Dataset
from pied.records.plain import from_plain, to_plain
from pied.rng import Stream
from pied.shell.readings import row_values
from pied.shell.tables import Table
from shells import data, pied_

OUTPUTS = {"p": {}, "q": {"lod": 0.02, "resolution": 0.01}}


def reactor(**words: Any) -> Problem:
    return Problem({"x": (0.0, 1.0)}, OUTPUTS, maximize="p", subject_to={"limit": "q <= 0.06"}, **words)


# ----------------------------------------------------------------------------------------------------------- the value


def test_a_limit_is_read_as_people_write_it_and_is_no_number() -> None:
    assert sided(" < 0.05 ") == ("0.05", -1)
    assert sided(">=100") == sided("above 100") == ("100", 1)
    assert sided("0.05") is None
    made = Measured(0.05, side=-1)
    assert (str(made), math.isnan(made)) == ("<0.05", True)
    for again in (pickle.loads(pickle.dumps(made)), from_plain(json.loads(json.dumps(to_plain(made))))):
        assert identity(again) == identity(made)
    assert identity(made) != identity(0.05)


@pytest.mark.parametrize(
    ("problem", "told", "said"),
    [
        (reactor(), {"p": "n.d."}, "'n.d.' needs a limit: state lod"),
        (reactor(), {"p": "<low"}, "write a limit like '<0.05'"),
        (reactor(ranges={"q": (0.0, 1.0)}), {"q": ">2"}, "'q' = >2 is outside its range from 0 to 1"),
    ],
)
def test_an_impossible_limit_is_refused_with_a_sentence(problem: Problem, told: Any, said: str) -> None:
    with Study(problem, seed=1, solver="random") as study, pytest.raises(TellError, match=said):
        study.tell(study.ask(), told)
    with pytest.raises(StatementError, match="resolution of 'q' must be above 0"):
        Problem({"x": (0, 1)}, {"q": {"resolution": 0}}, maximize="q")


def test_a_black_box_may_answer_with_a_limit() -> None:
    values, gaps, _ = reactor().answer({"p": ">3", "q": "n.d."})
    assert [str(each) for each in values] == [">3.0", "<0.02"]
    assert not gaps
    with pytest.raises(EvaluationError, match="should be a number"):
        reactor().answer({"p": "high", "q": 1})


# ----------------------------------------------------------------------------------------------------------- the belief


def one_output(U: Any, Y: Any, cut: Any, noise: float, nugget: float) -> GP:
    theta = (math.log(0.4), math.log(nugget))
    choice = ModelChoice("squared exponential", "constant", "none", "plain", theta, len(U), len(U))
    return GP.at_choices(
        U, Y, [choice], active=np.ones((1, 1), dtype=bool), ratios=np.ones(1), noise=[noise], model=Model(), cut=cut
    )


def test_the_belief_equals_what_weights_of_the_likelihood_leave_of_draws() -> None:
    """Functions drawn from the belief of the numbers alone, weighted by Phi((limit - f) / noise) of the limits."""
    U, noise = Stream(1).uniform(12, 1), 0.15
    Y = np.sin(5 * U) + noise * Stream(2).normal(12, 1)
    low, high = np.full((12, 1), -np.inf), np.full((12, 1), np.inf)
    for row, limit, end in ((3, 0.5, high), (7, 0.1, high), (9, 0.6, low)):
        Y[row], end[row] = np.nan, limit
    new = Stream(3).uniform(5, 1)
    plain, found = (one_output(U, Y, cut, noise, 0.05) for cut in (None, (low, high)))
    every = np.concatenate([U[[3, 7, 9]], new])
    mean, deviation = plain.moments(every)
    told = np.isfinite(Y[:, 0])

    def kernel(A: Any, B: Any) -> Any:
        return np.exp(-0.5 * ((A - B.T) / 0.4) ** 2)

    K = kernel(U[told], U[told]) + 0.05 * np.eye(told.sum())
    one, far = np.ones((told.sum(), 1)), kernel(every, U[told])
    inverse = np.linalg.inv(K)
    A = np.linalg.inv(one.T @ inverse @ one)
    apart = 1.0 - far @ inverse @ one
    C = (kernel(every, every) - far @ inverse @ far.T + apart @ A @ apart.T) * noise**2 / 0.05
    np.testing.assert_allclose(np.sqrt(np.diagonal(C)), deviation[:, 0], rtol=1e-4)
    draws = mean[:, 0] + Stream(4).normal(60_000, 8) @ np.linalg.cholesky(C + 1e-10 * np.eye(8)).T
    limits, sides = np.array([0.5, 0.1, 0.6]), np.array([-1, -1, 1])
    weights = ndtr(sides * (draws[:, :3] - limits) / noise).prod(1)
    wanted = (weights[:, None] * draws[:, 3:]).sum(0) / weights.sum()
    spread = np.sqrt((weights[:, None] * (draws[:, 3:] - wanted) ** 2).sum(0) / weights.sum())
    mean, deviation = found.moments(new)
    np.testing.assert_allclose(mean[:, 0], wanted, atol=0.02 * spread.max() + 0.005)
    np.testing.assert_allclose(deviation[:, 0], spread, rtol=0.05)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_limits_are_worth_more_than_nothing_and_than_numbers(noise: float) -> None:
    """An output that falls below its limit of detection: predictions there, of truths beyond the limit."""
    ratios = []
    for seed in range(3):
        U = Stream(seed).uniform(20, 1)
        truth = np.sin(7 * U)
        Y = truth + noise * Stream(seed).at("noise").normal(20, 1)
        below = Y < -0.2
        low, high = np.full(Y.shape, -np.inf), np.where(below, -0.2, np.inf)
        new = np.linspace(0, 1, 200)[:, None]
        real = np.maximum(np.sin(7 * new), -0.2)  # what is below is not told apart by anyone
        said = [noise or 0.0] if noise == 0 else [None]
        fits = [
            GP.fit(U, np.where(below, np.nan, Y), noise=said, cut=(low, high)),
            GP.fit(U, np.where(below, -0.2, Y), noise=said, model=Model(plateaus=False)),
            GP.fit(U, np.where(below, np.nan, Y), noise=said),
        ]
        off = [np.abs(np.maximum(gp.unwarp(gp.moments(new)[0]), -0.2) - real).mean() for gp in fits]
        ratios.append([off[0] / each for each in off[1:]])
    assert (np.median(ratios, 0) < 1.0).all()


def test_limits_alone_place_an_output_beyond_them() -> None:
    U = Stream(1).uniform(4, 1)
    Y, high = np.full((4, 1), np.nan), np.full((4, 1), 0.02)
    for noise in (None, 0.0, 0.001):
        gp = GP.fit(U, Y, noise=[noise], cut=(np.full((4, 1), -np.inf), high))
        mean, deviation = gp.moments(U)
        assert (mean < 0.02).all()
        assert (deviation < 0.1).all()


def test_without_limits_nothing_changes() -> None:
    U = Stream(1).uniform(9, 2)
    open_ends = (np.full((9, 1), -np.inf), np.full((9, 1), np.inf))
    first, second = (GP.fit(U, np.sin(4 * U[:, :1]), cut=each) for each in (None, open_ends))
    assert first.choices == second.choices


# ------------------------------------------------------------------------------------------------------------ functions


def test_functions_of_limits_are_what_they_are_at_worst() -> None:
    problem = Problem(
        {"x": (0, 1)}, ["p", "q"], minimize="x + 2*p", ranges={"q": (0, None)},
        subject_to={"met": "q <= 0.1", "broken": "p >= 3", "open": "q >= 0.01", "both": "q/(1 + x) + 0.1*p <= 1"},
    )  # fmt: skip
    with Study(problem, seed=1, solver="random") as study:
        study.add({"x": 0.5}, {"p": "<2", "q": "<0.05"})
        f = study.data.functions(problem)[0]
        assert f[0] == pytest.approx(-4.5)  # 0.5 + 2 * 2 at most, and it is minimized
        assert f[1] == pytest.approx(0.05)
        assert f[2] == pytest.approx(-1.0)
        assert math.isnan(f[3])
        assert f[4] == pytest.approx(1 - 0.05 / 1.5 - 0.2)
        assert bool(study.data.complete.all())
        assert not study.data.numeric.any()
        assert np.isnan(study.data.measured.functions(problem)).all()


def test_enclosures_hold_what_values_within_them_give() -> None:
    problem = Problem({"x": (0, 1)}, ["p", "q"], maximize="p*q - x", subject_to={"a": "exp(p) <= q", "b": "p^2 >= x"})
    X, ends = Stream(1).uniform(6, 1), np.sort(3 * Stream(2).normal(2, 12), 0).reshape(2, 6, 2)
    low, high = enclosed(problem, X, ends[0], ends[1])
    Y = ends[0] + (ends[1] - ends[0]) * Stream(3).uniform(600, 2).reshape(100, 6, 2)
    G = np.stack([each.reshape(100, 6) for each in problem.g(X, Y)], -1)
    assert ((low <= G) & (high >= G)).all()


def test_settings_whose_limits_are_known_to_be_met_are_recommended() -> None:
    with Study(reactor(noise=0), seed=1) as study:
        for x, q in ((0.1, "n.d."), (0.4, "<0.05"), (0.7, "<0.2"), (0.9, 0.07)):
            study.add({"x": x}, {"p": x, "q": q})
        found = study.recommend("observed")
        assert found.x is not None
        assert found.x["x"] == 0.4
        assert found.is_feasible


# ----------------------------------------------------------------------------------------------------------- the record


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_limits_are_kept_corrected_and_in_the_history(kind: str, tmp_path: Path) -> None:
    place = None if kind == "memory" else str(tmp_path / "lab.db")
    with Study(reactor(), name="lab", store=place, seed=1, solver="random") as study:
        study.tell(study.ask(), {"p": ">0.5", "q": "n.d."})
        study.tell(1, {"q": "<0.02"})  # says no more
        with pytest.raises(Contradiction, match=r"'q' was told as <0.02 and cannot become 0.02"):
            study.tell(1, {"q": 0.02})
        study.correct(1, {"q": 0.03, "p": ">0.6"}, why="read again")
        said = [each.what for each in study.history(1)]
        assert "told: p = >0.5, q = <0.02" in said
        assert "told again: q = <0.02" in said
        assert "corrected: p = >0.6 instead of >0.5, q = 0.03 instead of <0.02 (read again)" in said
        study.add({"x": 0.5}, {"p": 1.0, "q": "<0.05"})
        assert study.add_all([({"x": 0.5}, {"p": 1.0, "q": "<0.05"})]) == {}
        assert len(study.add_all([({"x": 0.5}, {"p": 1.0, "q": "<0.04"})])) == 1
        assert study.result().to_dict()["trials"][1]["y"] == {"p": 1.0, "q": "<0.05"}
    if place is not None:
        with Study(reactor(), name="lab", store=place) as study:
            assert [str(each) for each in (study.trials[0].y or {}).values()] == [">0.6", "0.03"]
            assert isinstance(study.data, Dataset)
            assert study.data.limited.tolist() == [[True, False], [False, True], [False, True]]
            assert study.problem.lods == {"q": 0.02}


# ------------------------------------------------------------------------------------------- tables, shell and report


def test_tables_have_limits_with_points_or_commas() -> None:
    for text in ("x,p,q\n0,>0.5,n.d.\n1,0.6,<0.05\n", "x;p;q\n0;> 0,5;ND\n1;0,6;<0,05\n"):
        table = Table.parse(text, "t.csv")
        read = [{name: str(each) for name, each in row_values(table, i, reactor()).items()} for i in range(2)]
        assert read == [{"p": ">0.5", "q": "<0.02"}, {"p": "0.6", "q": "<0.05"}]
    with pytest.raises(StatementError, match=r"'<0.5' is a limit, and 'p_sd' states an error"):
        row_values(Table.parse("x,p,p_sd\n0,<0.5,0.1\n", "t.csv"), 0, reactor())


def test_the_shell_tells_limits_exports_and_reads_them_back(lab: Path) -> None:
    file = lab / "lab.toml"
    file.write_text(file.read_text().replace("[outputs]", "[outputs]\nother = { lod = 0.1, resolution = 0.05 }"))
    assert "in steps of 0.05   n.d. below 0.1" in pied_("check", "lab.toml").output
    pied_("ask", "lab.toml")
    assert data("tell", "lab.toml", "1", "impurity=<0.05", "other=n.d.")["y"] == {"impurity": "<0.05", "other": "<0.1"}
    pied_("tell", "lab.toml", "1", "product=0.5")
    assert "<0.05" in pied_("status", "lab.toml").output
    pied_("export", "lab.toml", "--output", "out.csv")
    assert ",<0.05," in (lab / "out.csv").read_text()
    pied_("add", "lab.toml", "out.csv", "--store", "other.db")
    assert ",<0.05," in pied_("export", "lab.toml", "--store", "other.db", "--full").output


def test_an_objective_that_is_known_by_a_limit_is_said_to_be_not_known() -> None:
    with Study(reactor(noise=0.01), seed=0) as study:
        study.add({"x": 0.5}, {"p": "<0.3", "q": 0.05})
        text = str(study.result())
    assert "p not known: an output was told as a limit" in text
    assert "nan" not in text
