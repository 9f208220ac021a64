"""A question is its functions with the values they use; another question has its own status and verdict."""

import copy
import functools
import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pied import Problem, State, Status, Study, Trial
from pied.problem.identity import described
from pied.problem.named import Named
from pied.records.trial import Why
from pied.study.snapshot import Snapshot
from tiny import fast, parabola

LIMIT, PRICES, NAMES, LOG = 0.5, np.array([1.0, 2.0]), {"kind": "steel"}, logging.getLogger("of a user")


def over(limit: Any) -> Callable[[Named, Named], Any]:
    return lambda x, y: y.y - limit


def default(limit: Any) -> Callable[[Named, Named], Any]:
    def floor(x: Named, y: Named, limit: Any = limit) -> Any:
        return y.y - limit

    return floor


def keyword(limit: Any) -> Callable[[Named, Named], Any]:
    def floor(x: Named, y: Named, *, limit: Any = limit) -> Any:
        return y.y - limit

    return floor


def floor(limit: Any, x: Named, y: Named) -> Any:
    return y.y - limit


def bound(limit: Any) -> Callable[[Named, Named], Any]:
    return functools.partial(floor, limit)


@dataclass
class Plant:
    limit: Any

    def floor(self, x: Named, y: Named) -> Any:
        return y.y - self.limit

    def __call__(self, x: Named, y: Named) -> Any:
        return y.y - self.limit


class Slotted:
    __slots__ = ("_limit",)

    def __init__(self, limit: Any) -> None:
        self._limit = limit

    def __call__(self, x: Named, y: Named) -> Any:
        return y.y - self._limit


def through(limit: Any) -> Callable[[Named, Named], Any]:
    """A limit two functions deep."""
    inner = over(limit)
    return lambda x, y: inner(x, y)


def inside(limit: Any) -> Callable[[Named, Named], Any]:
    """A limit inside of an object."""
    settings = SimpleNamespace(deep=[{"limit": limit}])
    return lambda x, y: y.y - settings.deep[0]["limit"]


WAYS: list[Callable[[Any], Any]] = [
    over, default, keyword, bound, lambda limit: Plant(limit).floor, Plant, Slotted, through, inside
]  # fmt: skip


def identity(function: Any) -> tuple[Any, Any]:
    told = described("f", function)
    return told["hash"], told.get("values")


@pytest.mark.parametrize("way", WAYS)
def test_a_function_over_another_value_is_another_function(way: Callable[[Any], Any]) -> None:
    assert identity(way(0.1)) == identity(way(0.1))
    assert identity(way(0.1)) != identity(way(0.1 + 2**-55))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (np.linspace(0, 1, 2000), np.linspace(0, 1, 2000) + np.eye(1, 2000, 1000)[0]),
        ({"a": [1, (2, {3})]}, {"a": [1, (2, {4})]}),
        ("kg", "t"),
        (None, 0),
        (np.sin, np.cos),
        (Path("a"), Path("b")),
        (Plant(Plant(1)), Plant(Plant(2))),
    ],
)
def test_values_of_every_plain_kind_are_told_apart(one: Any, two: Any) -> None:
    assert identity(over(one)) == identity(over(copy.deepcopy(one)))
    assert identity(over(one)) != identity(over(two))


def test_tensors_are_told_apart() -> None:
    torch = pytest.importorskip("torch")
    for one in (torch.ones(3), torch.ones(2, dtype=torch.bfloat16)):
        assert identity(over(one)) == identity(over(one.clone()))
        assert identity(over(one)) != identity(over(one * 2))


def test_globals_that_a_function_reads_belong_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(x: Named, y: Named) -> Any:
        LOG.debug("called")
        return y.y * PRICES[0] - LIMIT * len([NAMES["kind"] for _ in range(2)])

    def other(x: Named, y: Named) -> Any:
        return x.LIMIT - y.y

    def module(x: Named, y: Named) -> Any:
        return y.y - sys.maxsize

    before = identity(reads), identity(other), identity(module)
    assert before == (identity(reads), identity(other), identity(module))
    LOG.debug("fills a cache")
    assert identity(reads) == before[0]
    for name, value in (("LIMIT", 0.6), ("PRICES", np.array([1.0, 2.5])), ("NAMES", {"kind": "tin"})):
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[__name__], name, value)
            assert identity(reads) != before[0], name
            assert identity(other) == before[1], "a name after a dot is not a global"
    monkeypatch.setattr(sys, "maxsize", 5)
    assert identity(module) != before[2]


def test_values_that_hold_themselves_or_each_other_end() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    shared: Any = [1.0]
    for _ in range(60):
        shared = [shared, shared]
    assert identity(over(ring)) == identity(over(ring))
    assert identity(over(shared)) == identity(over(shared))


@pytest.mark.slow  # starts a process
def test_a_function_has_the_same_identity_in_every_process() -> None:
    """No address and no order of a set may enter."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import test_questions as t\n"
        "print(*(t.identity(way(t.varied()))[1] for way in t.WAYS))"
    )
    words = [sys.executable, "-W", "ignore", "-c", code, str(Path(__file__).parent)]
    there = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert there.stdout.split() == [identity(way(varied()))[1] for way in WAYS]


def varied() -> Any:
    """Values whose order or repr differs from process to process."""
    return {"b", "a", "c", ("d", 1.5)}, object(), Plant(Slotted(0.1)), LOG


def test_a_function_without_values_is_known_as_before() -> None:
    """Studies that were kept before values counted go on."""

    def plain(x: Named, y: Named) -> Any:
        return y.y

    assert set(described("f", plain)) == {"name", "source", "hash"}


# ------------------------------------------------------------------------------------------------------------- studies


def limited(limit: float) -> Problem:
    """Parabola with a floor under y; y is 1 at most."""
    return parabola(subject_to={"floor": over(limit)})


def impossible(study: Study) -> None:
    assert study.run(20).status is Status.INFEASIBLE


@pytest.mark.slow
def test_a_verdict_does_not_outlive_its_limit(tmp_path: Path) -> None:
    with Study(limited(5.0), seed=0, solver=fast(), name="a", store=tmp_path / "a.db") as study:
        impossible(study)
        revision = study.revise(subject_to={"floor": over(0.5)})
        assert len(study.questions) == 2
        assert study.status is Status.RUNNING
        assert revision.result.status is Status.RUNNING
        assert study.run(2).is_feasible


def test_code_is_a_new_question_even_when_nothing_seems_to_change() -> None:
    with Study(limited(0.5), seed=0) as study:
        for number in (2, 3):
            study.revise(subject_to={"floor": over(0.5)})
            assert len(study.questions) == number
        study.revise(maximize=lambda x, y: y.y)
        study.revise(maximize=lambda x, y: y.y)
        assert len(study.questions) == 5
        assert study.ask().revision == 5


def test_formulas_that_were_asked_before_are_the_same_question(tmp_path: Path) -> None:
    with Study(parabola(), seed=0, name="a", store=tmp_path / "a.db") as study:
        study.revise(maximize="y")
        study.revise(maximize="y - 0.1*x")
        assert study.ask().revision == 1
        assert len(study.questions) == 2


def test_a_kept_study_notices_that_a_closure_has_changed(tmp_path: Path) -> None:
    place: dict[str, Any] = {"name": "a", "store": tmp_path / "a.db", "seed": 0}
    for limit, questions in ((0.5, 1), (0.5, 1), (0.6, 2), (0.6, 2), (0.5, 2)):
        with Study(limited(limit), **place) as study:
            assert len(study.questions) == questions


def test_a_question_put_again_by_code_is_found_again_under_its_last_number(tmp_path: Path) -> None:
    place: dict[str, Any] = {"name": "a", "store": tmp_path / "a.db", "seed": 0}
    with Study(limited(0.5), **place) as study:
        study.revise(subject_to={"floor": over(0.5)})
        number = study.ask().revision
    assert number == 2
    with Study(limited(0.7), **place):
        pass
    with Study(limited(0.5), **place) as study:
        assert study.ask(again=False).revision == number


def test_what_a_black_box_holds_is_no_part_of_the_question(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A connection or a counter of its own changes with every call."""
    calls: list[float] = []

    def measured(x: Any) -> float:
        calls.append(x.x)
        return float(x.x)

    for _ in range(2):
        with Study(parabola(blackbox=measured), name="a", store=tmp_path / "a.db") as study:
            study.run(1)
            assert len(study.questions) == 1
    assert "black box" not in caplog.text


@pytest.mark.slow
def test_how_a_run_ended_is_forgotten_when_the_question_changes() -> None:
    with Study(parabola(), seed=0, solver=fast(), stop_at_gap=1e9) as study:
        assert study.run(12).status is Status.GAP_REACHED
        revision = study.revise(maximize="2*y")
        for result in (revision.result, study.result()):
            assert result.status is Status.RUNNING
        assert study.status is Status.RUNNING
        study.revise(maximize="y - 0.1*x")
        assert study.result().status is Status.RUNNING


def test_bounds_of_long_ago_do_not_make_a_broken_constraint_nearly_hold() -> None:
    """The rule "asked" takes a point by the bounds it was asked with; what was measured since has the last word."""
    problem = parabola(subject_to={"floor": "y >= 0.9"})
    hoped = Why("explore", lower=(5.0, 0.5), upper=(6.0, 1.0))
    points = [(0.0, -0.69, Why("initial")), (2.5, -0.44, Why("initial")), (3.0, -1.89, hoped)]
    trials = tuple(
        Trial(number, Named(["x"], (x,)), State.TOLD, y=Named(["y"], (y,)), why=why)
        for number, (x, y, why) in enumerate(points, 1)
    )
    result = Snapshot(problem, fast, 0, 3, 3, trials).result("asked")
    assert result.trial == 3
    assert not result.is_feasible
    assert "NOT met" in str(result)
    assert "within its tolerance" not in str(result)
    assert result.gap is None or result.gap == math.inf
