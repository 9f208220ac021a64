"""Problems with a list of candidates: exact enumeration, and everything else as with a box."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from jaxtyping import Float64
from numpy import ndarray

from oracles import Normals
from pied import (
    CUQB,
    Infeasible,
    Named,
    Problem,
    SettingError,
    SolverDone,
    StatementError,
    Status,
    Study,
    UnknownName,
    Variable,
    solve,
)
from pied.bounds.believer import optimistic
from pied.bounds.composite import Composite
from pied.errors import StudyMismatch
from pied.problem.candidates import Listing
from pied.rng import Stream
from pied.search.enumeration import AT_ONCE, Enumeration, exact_weight
from pied.solvers import make, registry
from tiny import fast, hill, points

TABLE = np.random.default_rng(1).uniform(0.0, 4.0, (60, 2))
LISTS = ("bois", "cobalt", "cuqb", "cuqb-paper", "eic", "eic-cf", "epbo", "logei-cf", "merit-quantile", "random")


def listed(**words: Any) -> Problem:
    """The problem `tiny.hill` on sixty points of its box."""
    return hill(**({"variables": ["a", "b"], "candidates": TABLE} | words))


def best_of(table: Any) -> tuple[float, ...]:
    """The best candidate of `hill` by hand."""
    y = (table[:, 0] - 3) ** 2 + (table[:, 1] - 2) ** 2
    fine = (y >= 1) & (table.sum(1) <= 3)
    return tuple(table[np.where(fine, y, np.inf).argmin()].tolist())


class Columns:
    """Functions of the point, without a belief."""

    white: tuple[int, ...] = ()

    def __init__(self, *functions: Any) -> None:
        self.functions = functions
        self.k = len(functions)

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        return np.stack([f(U) for f in self.functions], -1)

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        return self.values(U), np.zeros((len(U), self.k, U.shape[1]))


# ------------------------------------------------------------------------------------------------------ the statement


@pytest.mark.parametrize(
    "given",
    [
        {"variables": ["a", "b"], "candidates": TABLE},
        {"variables": ["a", "b"], "candidates": TABLE.tolist()},
        {"variables": None, "candidates": {"a": TABLE[:, 0], "b": list(TABLE[:, 1])}},
        {"variables": None, "candidates": [{"a": a, "b": b} for a, b in TABLE.tolist()]},
        {"variables": None, "candidates": pandas.DataFrame(TABLE, columns=["a", "b"])},
        {"variables": ["a", "b"], "candidates": pandas.DataFrame({"b": TABLE[:, 1], "name": "x", "a": TABLE[:, 0]})},
    ],
    ids=["array", "rows", "columns", "dictionaries", "frame", "frame with more columns"],
)
def test_a_table_is_read_in_any_form(given: dict[str, Any]) -> None:
    problem = hill(**given)
    assert isinstance(problem.candidates, Listing)
    assert np.array_equal(problem.candidates.X, TABLE)
    assert list(problem.variables) == ["a", "b"]
    assert problem.variables["a"] == Variable(float(TABLE[:, 0].min()), float(TABLE[:, 0].max()))
    assert "60 candidates" in repr(problem)


def test_a_table_may_be_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    problem = hill(variables=["a", "b"], candidates=torch.from_numpy(TABLE))
    assert problem.candidates is not None
    assert np.array_equal(problem.candidates.X, TABLE)


def test_stated_boxes_carry_units_and_scales() -> None:
    problem = Problem({"T": Variable(1, 100, log=True, unit="K")}, ["y"], candidates=[1.0, 10.0, 100.0], maximize="y")
    assert problem.candidates is not None
    assert problem.candidates.U[:, 0].tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert problem.variables["T"].unit == "K"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"variables": None, "candidates": TABLE}, "have no names: name their columns"),
        ({"candidates": TABLE[:, :1]}, "a column for each of 'a', 'b', got an array of shape"),
        ({"candidates": TABLE[:1]}, "at least two points"),
        ({"candidates": []}, "a column for each"),
        ({"candidates": {"a": [1, 2], "b": [1, 2, 3]}}, "differ in length"),
        ({"candidates": {"a": [1, 2], "b": [3, 3]}}, "'b' is 3 in every candidate: make it a constant"),
        ({"candidates": {"a": [1, 2], "b": [3, math.nan]}}, "Candidate 2 has no finite number for 'b'"),
        (
            {"candidates": {"a": [1, 2], "b": ["steel", 3]}},
            "'b' of candidate 1 should be a number, got str 'steel'",
        ),
        ({"candidates": [{"a": 1, "b": 2}, {"a": 1}]}, "'b' of candidate 2 should be a number"),
        ({"variables": {"a": (0, 1), "b": (0, 4)}}, "The candidates have 'a' from .* outside its range from 0 to 1"),
    ],
)
def test_a_bad_table_gets_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StatementError, match=sentence):
        listed(**given)


def test_a_missing_column_is_named_with_the_one_probably_meant() -> None:
    with pytest.raises(UnknownName, match=r"'aa', which is not a column of the candidates\. Did you mean 'a'"):
        hill(variables=["aa", "b"], candidates=pandas.DataFrame(TABLE, columns=["a", "b"]))


def test_other_forms_of_the_problem_keep_the_list() -> None:
    problem = listed()
    assert problem.folded().candidates is not None
    assert np.array_equal(problem.folded().candidates.X, problem.candidates.X)  # type: ignore[union-attr]
    assert problem.revised(noise=0.1).statement()["candidates"] == problem.statement()["candidates"]
    other = problem.revised(candidates=TABLE[:20])
    assert len(other.candidates or ()) == 20
    assert other.variables["a"].hi == TABLE[:20, 0].max()


def test_a_point_must_be_a_candidate() -> None:
    problem = listed()
    near = TABLE[7] + 1e-12
    assert np.array_equal(problem.point(near), TABLE[7])
    with pytest.raises(StatementError, match="is not among the 60 candidates; the nearest of them is a = "):
        problem.point(TABLE[7] + 1e-3)
    with pytest.raises(StatementError, match="is not among the 60 candidates"):
        Study(problem, seed=0).add(TABLE[7] + 1e-3, {"y": 1.0})


# -------------------------------------------------------------------------------------------------------- enumeration


def test_the_best_of_a_list_is_found_exactly_across_pieces() -> None:
    U = Stream(0).uniform(3 * AT_ONCE + 17, 2)
    functions = Columns(lambda U: np.sin(9 * U[:, 0]) + U[:, 1], lambda U: 0.5 - U[:, 1])
    search = Enumeration(U, np.ones(len(U), dtype=bool))
    found = search.solve(functions, np.ones(2))
    f = functions.values(U)
    best = np.where(f[:, 1] >= -1e-7, f[:, 0], -np.inf).argmax()
    assert np.array_equal(found.u, U[best])
    assert found.satisfied
    again = search.without(np.array([best])).solve(functions, np.ones(2))
    assert not np.array_equal(again.u, U[best])
    assert again.f[0] <= found.f[0]


def test_where_nothing_is_feasible_the_largest_smallest_constraint_wins() -> None:
    U = Stream(0).uniform(500, 2)
    functions = Columns(lambda U: U[:, 0], lambda U: U[:, 0] - 2.0, lambda U: -1.5 - U[:, 0] * U[:, 1])
    scales = np.array([1.0, 2.0, 1.0])
    search = Enumeration(U, np.ones(500, dtype=bool))
    found = search.rescue(functions, scales)
    margin = (functions.values(U) / scales)[:, 1:].min(1)
    assert not found.satisfied
    assert found.margin == pytest.approx(float(margin.max()), abs=1e-12)
    assert search.largest(functions, scales).tolist() == pytest.approx(
        (functions.values(U)[:, 1:].max(0) / scales[1:]).tolist()
    )


def test_the_multipliers_of_a_list_make_the_penalty_exact_and_no_smaller_weight_does() -> None:
    U = Stream(3).uniform(2000, 2)
    functions = Columns(lambda U: 3 * U[:, 0], lambda U: 0.4 - U[:, 0] + 0.05 * np.sin(40 * U[:, 1]))
    found = Enumeration(U, np.ones(2000, dtype=bool)).solve(functions, np.array([2.0, 0.5]))
    f, rho = functions.values(U), found.multipliers[0]
    penalized = [float((f[:, 0] - r * np.maximum(-f[:, 1], 0)).max()) for r in (rho * 1.0001, rho * 0.99)]
    assert penalized[0] == pytest.approx(float(found.f[0]), rel=1e-12)
    assert penalized[1] > float(found.f[0]) * (1 + 1e-6)
    assert exact_weight(f[:, :1], 0.0) == 0.0


def test_sampled_functions_are_compared_with_the_samples_of_solving() -> None:
    problem = Problem(["s", "t"], ["p", "q"], candidates=Stream(0).uniform(400, 2), maximize="p*q")
    belief = Normals(lambda u: np.stack([u[0], 1 - u[1]]), lambda u: 0.1 + 0.2 * u)
    bounds = optimistic(Composite(problem, belief, Stream(1)), 0.95)
    assert problem.candidates is not None
    found = Enumeration.of(problem.candidates).solve(bounds, np.ones(1))
    precise, _ = bounds.values_and_slopes(problem.candidates.U)
    assert float(found.f[0]) == pytest.approx(float(precise.max()), rel=1e-12)


def test_a_list_that_is_used_up_says_so() -> None:
    search = Enumeration(Stream(0).uniform(4, 2), np.zeros(4, dtype=bool))
    with pytest.raises(SolverDone, match="every candidate has been measured"):
        search.solve(Columns(lambda U: U[:, 0]), np.ones(1))


def test_the_nearest_candidate_is_the_first_of_equal_ones() -> None:
    U = np.array([[0.1, 0.2], [0.7, 0.7], [0.7, 0.7], [0.9, 0.1]])
    listing = Listing(10 * U, U)
    assert listing.nearest(np.array([0.69, 0.7])) == 1
    assert listing.same(U[[1, 3]]).tolist() == [1, 2, 3]
    assert listing.same(U[:0]).tolist() == []


# -------------------------------------------------------------------------------------------------------- the study


@pytest.mark.slow
def test_the_best_candidate_is_found_with_its_own_numbers_and_never_asked_twice() -> None:
    problem = listed()
    study = Study(problem, solver=fast(), seed=0)
    result = study.run(20)
    assert tuple(dict(result.x or {}).values()) == best_of(TABLE)
    rows = {tuple(row) for row in TABLE.tolist()}
    assert set(points(study.trials)) <= rows
    assert len(set(points(study.trials))) == study.used >= (TABLE.sum(1) <= 3).sum(), "all that meet the known limit"
    assert result.gap is not None
    assert result.gap >= 0


def test_when_every_candidate_is_measured_the_study_is_done_and_the_gap_closed() -> None:
    problem = listed(candidates=TABLE[:12])
    study = Study(problem, solver=fast(), seed=0)
    result = study.run(30)
    assert result.status is Status.DONE
    assert result.evaluations == (TABLE[:12].sum(1) <= 3).sum(), "others break the known limit"
    assert tuple(dict(result.x or {}).values()) == best_of(TABLE[:12])
    assert result.gap == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(SolverDone, match="every setting that can be chosen has been measured"):
        study.ask()


@pytest.mark.slow
def test_candidates_that_lie_close_together_are_all_measured_before_any_is_again() -> None:
    """Decades on a linear scale: most of the list lies within a ten-thousandth of the box, and so does its best."""

    def humps(x: Named) -> float:
        decade = math.log10(x.x)
        return 24 * math.exp(-(((decade + 5.5) / 0.3) ** 2)) - (decade + 2) ** 2

    problem = Problem(
        candidates={"x": [10.0 ** (-k / 4) for k in range(29)]},
        outputs=["y"],
        blackbox=humps,
        maximize="y",
        noise=0,
    )
    result = solve(problem, 29, seed=0)
    assert len(set(points(result.trials))) == len(result.trials) >= 28
    assert result.value == pytest.approx(11.75)


def test_added_candidates_are_not_measured_again_and_a_short_list_ends_in_the_design() -> None:
    problem = listed(candidates=TABLE[:4], subject_to=["y >= 1"])
    study = Study(problem, solver=fast(), seed=0)
    assert study.initial == 4
    study.add(TABLE[2], problem.evaluate(TABLE[2]))
    result = study.run(10)
    assert result.evaluations == 3
    assert len(set(points(study.trials))) == 4


def test_a_noisy_candidate_is_offered_again_and_an_exact_one_is_not() -> None:
    few = TABLE[np.argsort(((TABLE - [2, 1]) ** 2).sum(1))[:6]]
    draw = np.random.default_rng(0)
    words = {"candidates": few, "subject_to": None}

    def noisy(x: Any) -> float:
        return (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2 + 0.3 * draw.standard_normal()

    study = Study(listed(**words, blackbox=noisy, noise=0.3), solver=fast(), seed=0)
    study.run(14)
    assert len(points(study.trials)) == 14
    assert len(set(points(study.trials))) <= 6
    sure = Study(listed(**words, noise=1e-9), solver=fast(), seed=0)
    assert sure.run(14).status is Status.DONE  # soon known to a thousandth of the scale


@pytest.mark.slow
def test_pending_candidates_are_not_offered_to_others() -> None:
    study = Study(listed(), solver=fast(), seed=0)
    study.run(6)
    asked = [study.ask() for _ in range(4)]
    assert len(set(points(study.trials))) == 10
    study.fail(asked[0], "broken")
    assert tuple(asked[0].x.values()) not in points([study.ask()])


@pytest.mark.slow
def test_no_candidate_is_feasible_and_the_verdict_says_so() -> None:
    problem = listed(subject_to={"far": "y >= 40"}, blackbox=lambda x: (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2)
    result = Study(problem, seed=0).run(30)
    assert result.status is Status.INFEASIBLE
    assert result.evaluations < 20
    assert result.relaxation is not None
    assert result.relaxation.alone["far"] is not None


def test_known_constraints_that_no_candidate_meets_are_declared_before_any_evaluation() -> None:
    between = "0.5 <= a <= 0.6"  # the box has such points, this list does not
    table = TABLE[(TABLE[:, 0] < 0.5) | (TABLE[:, 0] > 0.6)]
    study = Study(listed(candidates=table, subject_to={"gap": between}), seed=0)
    with pytest.raises(Infeasible, match=r"cannot be met together by any candidate\. Nothing needed to be evaluated"):
        study.ask()


def test_a_noisy_recommendation_is_a_candidate() -> None:
    study = Study(listed(noise=0.01), solver=fast(), seed=0)
    result = study.run(12)
    assert result.rule == "anywhere"
    assert tuple(dict(result.x or {}).values()) in {tuple(row) for row in TABLE.tolist()}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("cuqb", "random") else pytest.mark.slow) for n in LISTS]
)
def test_solvers_that_can_choose_from_a_list_do(name: str) -> None:
    study = Study(listed(), solver=name, seed=0)
    study.run(8)
    assert len(set(points(study.trials)) & {tuple(row) for row in TABLE.tolist()}) == 8


@pytest.mark.parametrize("name", sorted(set(registry) - set(LISTS)))
def test_every_other_solver_refuses_a_list(name: str) -> None:
    if make(name).lists:
        pytest.skip("a variant of one that can")
    with pytest.raises(SettingError, match="cannot choose from a list of candidates: take 'cuqb'"):
        Study(listed(), solver=name)


def test_the_paper_s_algorithm_solves_its_subproblem_exactly_on_a_list() -> None:
    study = Study(listed(), solver=CUQB.paper(), seed=0)
    study.run(8)
    assert len(set(points(study.trials))) == 8


def test_the_paper_s_algorithm_declares_at_once_what_no_candidate_can_meet() -> None:
    problem = listed(subject_to={"far": "y >= 40"}, blackbox=lambda x: (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2)
    result = Study(problem, solver=CUQB.paper(), seed=0).run(20)
    assert result.status is Status.INFEASIBLE
    assert result.evaluations <= 8


# -------------------------------------------------------------------------------------------------------- the store


@pytest.mark.slow
def test_a_stored_study_continues_on_the_same_list_and_refuses_another(tmp_path: Path) -> None:
    words: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'lab.db'}", "name": "shelf", "solver": fast(), "seed": 3}
    with Study(listed(), **words) as study:
        study.run(7)
    with Study(listed(), **words) as study:
        study.run(4)
        continued = points(study.trials)
        revision = study.revise(subject_to={"far enough": "y >= 2", "line": "a + b <= 3"})
        assert dict(revision.result.x or {}) in [{"a": a, "b": b} for a, b in TABLE.tolist()]
        assert study.compare().old is not None
    whole = Study(listed(), solver=fast(), seed=3)
    whole.run(11)
    assert continued == points(whole.trials)
    box = {"a": (0.0, 4.0), "b": (0.0, 4.0)}
    with pytest.raises(StudyMismatch, match="a list of 60 candidates is stored, no list is given"):
        Study(hill(variables=dict(listed().variables)), **words)
    with pytest.raises(StudyMismatch, match="variable 'a'"):
        Study(listed(variables=box, candidates=TABLE[:30]), **words)
