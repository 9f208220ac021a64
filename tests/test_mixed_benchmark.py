"""The benchmark of mixed problems: spaces and functions as other libraries get them, and the page."""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import suite
from pied.rng import Stream

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
mixed = importlib.import_module("mixed")
combinations, composite, contenders, courses, slices, spaces = (
    importlib.import_module(name) for name in ("combinations", "composite", "contenders", "courses", "slices", "spaces")
)

NAMES = suite.sets["mixed"]


def points(name: str, count: int) -> np.ndarray:
    """Points of a problem that can be set."""
    benchmark = suite[name]
    U = benchmark.whole.settled(Stream(3).sobol(count, benchmark.whole.d), Stream(4))
    return benchmark.settable(benchmark.whole.from_unit(U))


def begun(name: str, count: int = 12) -> Any:
    """A run with some points told."""
    benchmark = suite[name]
    course = courses.Course(benchmark)
    for row in points(name, count):
        named = zip(benchmark.whole.variables.items(), row.tolist(), strict=True)
        course.add({key: each.labels[round(x)] if each.is_choice else x for (key, each), x in named})
    return course


@pytest.mark.parametrize("name", NAMES)
def test_functions_in_torch_are_those_of_the_suite(name: str) -> None:
    torch = pytest.importorskip("torch")
    benchmark, X = suite[name], points(name, 16)
    Y = benchmark.outputs(X)
    functions = [composite.in_torch(benchmark.problem, place) for place in range(benchmark.whole.k)]
    for function, value in zip(functions, benchmark.truth(X).T, strict=True):
        found = function(torch.tensor(X)[:, None], torch.tensor(Y)[None, :, None])
        np.testing.assert_allclose(found[0, :, 0].numpy(), value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["coolant-blend", "lubricant-blend"])
def test_a_mixture_is_completed_and_its_bounds_are_rows(name: str) -> None:
    benchmark, X = suite[name], points(name, 16)
    space = spaces.Space(benchmark.whole)
    places = {each: place for place, each in enumerate(benchmark.whole.variables)}
    assert len(space.determined) == 1
    assert len(space.sums) == 2
    for row in X:
        given = {each: float(row[places[each]]) for each in space.axes}
        for each, value in space.completed(given).items():
            assert value == pytest.approx(row[places[each]], abs=1e-12)
        for weights, most in space.sums:
            assert sum(w * given[each] for each, w in weights.items()) <= most + 1e-9


LIBRARIES = ["optuna-tpe", "optuna-gp", "ax", "botorch"]
HARDER = [("lubricant-blend", "botorch"), ("heat-pump", "botorch"), ("lubricant-blend", "optuna-gp")]
"""Take up to minutes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loop"),
    [
        pytest.param(name, loop, marks=[pytest.mark.long] if (name, loop) in HARDER else [])
        for name in ("concrete-beam", "lubricant-blend", "heat-pump")
        for loop in LIBRARIES
    ],
)
def test_every_library_suggests_a_point_of_the_space(loop: str, name: str) -> None:
    pytest.importorskip(loop.partition("-")[0])
    pytest.importorskip("torch")
    course = begun(name)
    x = contenders.CONTENDERS[loop](course.benchmark, course.told, 1)
    course.add(x)
    assert set(x) == set(course.benchmark.whole.variables)
    (X,) = course.X[-1:]
    np.testing.assert_allclose(course.benchmark.settable(X[None])[0], X, rtol=1e-9)
    if loop != "optuna-tpe":  # which may leave the bounds of a mixture's last part, as the page says
        lo, hi = course.benchmark.whole.bounds.T
        is_inside = (lo - 1e-6 <= X) & (hi + 1e-6 >= X)
        assert is_inside.all() or name == "lubricant-blend"


@pytest.mark.slow
@pytest.mark.parametrize("loop", [pytest.param("pied", marks=pytest.mark.long), "random"])
def test_a_run_spends_its_budget_and_its_regret_never_rises(loop: str) -> None:
    record = mixed.run({"problem": "concrete-beam", "loop": loop, "seed": 0})
    assert record["error"] is None
    assert len(record["regret"]) == 20 + 8 * 3
    told = [np.inf if each is None else each for each in record["regret"]]
    assert told == sorted(told, reverse=True)
    assert len(record["cpu"]) == len(told) - record["size"]["initial"]


def test_a_contender_goes_on_where_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = suite["coil-spring"]
    rows = iter(points("coil-spring", 64))

    def suggest(benchmark: Any, told: Any, seed: int) -> dict[str, Any]:
        return dict(zip(benchmark.problem.variables, next(rows).tolist(), strict=True))

    monkeypatch.setitem(contenders.CONTENDERS, "botorch", suggest)
    monkeypatch.setattr(courses, "warmed", lambda loop: None)
    words: dict[str, Any] = {"seed": 0, "budget": 12, "tolerances": mixed.TOLERANCES}
    kept: list[Any] = []
    whole = courses.run(benchmark, "botorch", **words, keep=kept.append)
    assert whole["error"] is None
    assert len(kept) == 12
    rows = iter(points("coil-spring", 64)[3:])  # three were suggested before it was left
    left = kept[: whole["size"]["initial"] + 3]
    again = courses.run(benchmark, "botorch", **words, begun=left)
    assert again["regret"] == whole["regret"]
    assert again["cpu"][:3] == whole["cpu"][:3]


@pytest.mark.slow
def test_runs_that_are_done_are_not_repeated_and_a_limit_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.jsonl.gz"
    words = ["--problems", "concrete-beam", "--contenders", "random", "--out", str(out), "--jobs", "2"]
    assert mixed.main([*words, "--seeds", "1", "--limit", "0"]) == 1
    assert slices.read(out) == []
    assert mixed.main([*words, "--seeds", "1"]) == 0
    assert [each["item"]["seed"] for each in slices.read(out)] == [0]
    assert mixed.main([*words, "--seeds", "1"]) == 0
    assert "1 of 1 tasks are done, 0 to do" in capsys.readouterr().err


def test_a_task_that_is_cut_off_keeps_its_pieces(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import json, sys, time\n"
        "begun = json.loads(sys.stdin.read())\n"
        "print(json.dumps({'piece': len(begun)}), flush=True)\n"
        "print(json.dumps({'record': begun}) if begun else '', flush=True)\n"
        "time.sleep(0 if begun else 600)\n"
    )
    assert slices.performed({}, str(script), time.monotonic() + 2.0, []) == {"begun": [0]}
    assert slices.performed({}, str(script), time.monotonic() + 60.0, [0]) == [0]
    assert slices.performed({}, str(script), time.monotonic(), []) is None


def record(problem: str, loop: str, until: list[int | None], seed: int = 0) -> dict[str, Any]:
    """A record, made by hand."""
    origin = {"version": "0", "commit": "none", "code": "c", "command": "", "machine": "", "date": ""}
    size = {"d": 3, "m": 2, "n": 2, "initial": 7, "budget": 44}
    run = {"size": size, "cpu": [0.25], "wall": [0.5], "regret": [None, 0.5], "until": until, "error": None}
    return {"item": {"problem": problem, "loop": loop, "seed": seed}, **run, "spent": 1.0, "made": origin}


def test_the_page_has_shares_evaluations_regret_and_seconds_of_every_loop() -> None:
    records = [
        record("concrete-beam", "pied", [9, 12]),
        record("concrete-beam", "pied", [11, 14], seed=1),
        record("concrete-beam", "random", [20, None]),
        record("draw:1000:mixed", "pied", [5, None]),
    ]
    page = mixed.page(records)
    rows = {
        line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]]
        for line in page.splitlines()
        if "|" in line
    }
    assert "| pied" in page
    assert rows["random"][:3] == ["100%", "0%", "0 of 1"]
    assert "Fresh draws" in page
    assert "100%; 11, 14; 5e-01" in page


def test_times_and_distances_are_tabulated_and_problems_of_the_family_are_alike() -> None:
    integers, relaxed, choices = (combinations.family(kind, 3) for kind in ("integers", "relaxed", "choices"))
    assert [combinations.settings_of(each) for each in (integers, relaxed, choices)] == [1000, 1, 1000]
    values = {"a": 0.2, "b": 0.7}
    numbers = {"n0": 3, "n1": 4, "n2": 9}
    labels = {name: f"label {value}" for name, value in numbers.items()}
    np.testing.assert_allclose(integers.evaluate(values | numbers), relaxed.evaluate(values | numbers))
    np.testing.assert_allclose(integers.evaluate(values | numbers), choices.evaluate(values | labels))
    items = combinations.items_of(["times", "distance"], NAMES, 1)
    too_many, none = {"gear-train"}, {"coolant-blend"}  # settings of discrete variables
    assert {item["problem"] for item in items if item["what"] == "distance"} == set(NAMES) - too_many - none
    origin = record("", "", [])["made"]
    made = [
        {"item": item, "cpu": [2.0 if item["kind"] == "choices" else 1.0], "spent": 1.0, "made": origin}
        for item in items
        if item["what"] == "times"
    ]
    answer = {"t": 7, "gap": 0.0, "is_met": True, "found": True, "ours": 0.1, "brute": 0.2}
    task = {"what": "distance", "problem": "concrete-beam", "seed": 0}
    made.append({"item": task, "settings": 988.0, "answers": [answer], "spent": 1.0, "made": origin})
    page = combinations.page(made)
    assert "2.00" in page
    assert "1 of 1" in page


@pytest.mark.slow
def test_brute_force_is_at_least_as_good_as_any_point_of_a_pool() -> None:
    class Bowl:
        k, white = 2, ()

        def values(self, U: np.ndarray) -> np.ndarray:
            return np.stack([-((U - 0.37) ** 2).sum(1), U[:, 0] - 0.4], -1)

        def values_and_slopes(self, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self.values(U), np.zeros((len(U), 2, U.shape[1]))

    problem = suite["concrete-beam"].whole
    best = combinations.brute(problem, Bowl(), Stream(1))
    pool = Bowl().values(problem.grid.snapped(Stream(2).sobol(2**14, problem.d)))
    top = pool[pool[:, 1] >= 0, 0].max()
    assert top <= best <= top + 1e-3
