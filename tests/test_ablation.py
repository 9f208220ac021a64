"""Ablations, the noise study and the hard starts: their arithmetic, and tiny runs of each script."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import suite
from pied.bench.plan import RULES, solver_of
from pied.rng import Stream
from pied.solvers.cuqb import CUQB

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
ablation = importlib.import_module("ablation")
noise = importlib.import_module("noise")
hardstarts = importlib.import_module("hardstarts")
slices = importlib.import_module("slices")
variants = importlib.import_module("variants")


def record(rung: str, regret: list[float | None], problem: str = "booth", seed: int = 0) -> dict[str, Any]:
    """A run of the ladder, made by hand."""
    return {
        "item": {"rung": rung, "problem": problem, "seed": seed, "budget": 4},
        "regret": regret,
        "seconds": {"median": 0.25, "max": 0.5, "total": 1.0},
        "verdict": None,
        "is_feasible": True,
        "error": None,
        "spent": 1.0,
        "made": {"version": "0", "commit": "none", "code": "c", "command": "", "machine": "", "date": ""},
    }


def cells(table: str, label: str) -> list[str]:
    """The row of a table with this label."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


# --- The ladder -------------------------------------------------------------------------------------------------------


def test_every_rung_can_be_made_and_none_but_the_default_is_the_default():
    with variants.known():
        made = [(solver_of(rung.solver)[0], rung.structure, rung.initial) for rung in ablation.LADDER]
    assert made[0] == (CUQB(), "full", "2d+1")
    assert all(each != made[0] for each in made[1:])
    assert len({rung.label for rung in ablation.LADDER}) == len({rung.change for rung in ablation.LADDER}) == len(made)


def test_a_group_of_rungs_comes_with_the_default():
    assert [rung.label for rung in ablation.rungs_of(["kernels", "no warp"])] == [
        "default", "squared exponential", "Matern 5/2", "Matern 3/2", "no warp"
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="no rung and no group 'kernel'"):
        ablation.rungs_of(["kernel"])


def test_rungs_are_run_where_they_can_matter_alone():
    rungs = ablation.rungs_of(["estimator", "inputs as in the code", "plain inputs"])
    items = ablation.items_of(rungs, ["ex314", "rosenbrock", "williams-otto"], 1, None)
    by = {name: {item["rung"] for item in items if item["problem"] == name} for name in ("ex314", "rosenbrock")}
    assert by["ex314"] == {"default"}
    assert by["rosenbrock"] == {"default", "order statistic", "soft sort", "128 samples", "inputs as in the code"}
    assert {item["budget"] for item in items} == {ablation.BUDGET}


@pytest.mark.slow
def test_draws_have_twenty_evaluations_and_eight_for_each_variable():
    (item,) = ablation.items_of(ablation.rungs_of(["default"]), ["draw:3:polynomial"], 1, None)
    assert item["budget"] == 20 + 8 * suite.random(3, "polynomial").whole.d


def test_work_goes_seed_by_seed_and_keeps_the_runs_of_a_problem_together():
    items = ablation.items_of(ablation.rungs_of(["verify"]), ["booth", "g09"], 2, 9)
    assert [item["seed"] for item in items] == sorted(item["seed"] for item in items)
    count = len(ablation.rungs_of(["verify"]))
    assert [item["problem"] for item in items] == (["g09"] * count + ["booth"] * count) * 2


def test_the_ladder_compares_pairs_and_takes_the_defaults_runs_where_nothing_changes():
    ladder = ablation.Ladder.of([
        record("default", [None, 1e-2, 1e-2, 1e-5]),
        record("default", [None, 1e-2, 1e-2, 1e-9], seed=1),
        record("default", [None, 1e-2, 1e-2, 1e-9], "wolfe"),
        record("no warp", [None, 1e-3, 1e-3, 1e-3]),
        record("no warp", [None, 1e-2, 1e-2, 1e-8], seed=1),
        record("no warp", [1e-9], seed=7),
        record("soft sort", [1e-9], "rosenbrock"),
    ])  # fmt: skip
    table = ablation.ladder_table(ladder)
    label, runs, coarse, middle, fine, by_seed, *_ = cells(table, "no warp")
    assert (label, runs, coarse, middle, fine, by_seed) == (
        "no warp", "2 (2)", "1.0 of 1", "0.5 of 1", "0.5 of 1", "0 .. 1"
    )  # fmt: skip
    *_, half, full, middle, fine, _ = cells(table, "no warp")
    assert half.startswith("1 / 0 / 1")
    assert full.startswith("0 / 1 / 1")  # 1e-8 and 1e-9 are the same
    assert middle.startswith("0 / 1 / 1")  # never, instead of after four
    assert fine.startswith("0 / 0 / 2")
    assert cells(table, "soft sort")[1:5] == ["3 (0)", "2.0 of 2", "2.0 of 2", "1.5 of 2"]
    assert cells(table, "soft sort")[-2].startswith("0 / 0 / 3")
    assert "booth (100% to 50%)" in ablation.swings_table(ladder)


def test_rivals_without_a_white_box_are_compared_with_the_default_without_one():
    ladder = ablation.Ladder.of([
        record("default", [1e-9]),
        record("g folded into h", [1e-3, 1e-3, 1e-9]),
        record("EIC, g folded", [1e-3, 1e-3, 1e-3, 1e-9]),
    ])  # fmt: skip
    table = ablation.rivals_table(ladder, "folded", ablation.FOLDED)
    expected = ["0 / 0 / 1", "0 / 0 / 1", "0 / 1 / 0", "0 / 1 / 0"]
    assert [cell[:9] for cell in cells(table, "EIC, g folded")[1:]] == expected
    assert not ablation.rivals_table(ablation.Ladder.of([record("default", [1e-9])]), "folded", ablation.FOLDED)


def test_rivals_are_compared_on_both_sets_together():
    runs = [record(rung, regret, problem) for problem in ("booth", "draw:0:gp") for rung, regret in (
        ("default", [1e-3, 1e-9]), ("log-EI", [1e-3, 1e-3, 1e-9]),
    )]  # fmt: skip
    page = ablation.page(runs)
    together = page.split("## Rivals on both together")[1]
    assert [cell[:9] for cell in cells(together, "log-EI")[1:]] == ["0 / 2 / 0", "0 / 0 / 2", "0 / 2 / 0", "0 / 2 / 0"]
    assert "on both together" not in ablation.page(runs[:2])


def test_a_run_that_raised_solves_nothing_and_is_named():
    broken = {"item": record("no warp", [])["item"], "error": "ValueError: no", "made": record("", [])["made"]}
    page = ablation.page([record("default", [1e-9]), broken])
    assert cells(page, "no warp")[2] == "0.0 of 1"
    assert "- no warp, booth, 0: ValueError: no" in page


# --- Noise ------------------------------------------------------------------------------------------------------------


def test_noise_is_absolute_on_the_reactor_and_relative_elsewhere():
    reactor = noise.noisy("williams-otto", "full", 0.01, 3)
    assert reactor.noise == (0.01,) * 4
    booth = noise.noisy("booth", "paper", 0.05, 0)
    Y = booth.outputs(booth.whole.from_unit(Stream(1).uniform(4096, 2)))
    low, high = np.quantile(Y[:, 0], [0.25, 0.75])
    assert booth.noise[0] == pytest.approx(0.05 * (high - low), rel=0.1)  # other random points: 4096 of them
    assert booth.problem.noise == (None,)


def test_the_optimum_has_no_loss_and_a_violation_costs():
    reactor = suite.get("williams-otto")
    best = reactor.whole.point(reactor.known.x)
    assert noise.true_values(reactor, best)["loss"] == pytest.approx(0.0, abs=1e-3)
    lo, hi = reactor.whole.bounds.T
    corners = np.array([lo, hi, [lo[0], hi[1]], [hi[0], lo[1]]])
    worst = corners[reactor.truth(corners)[:, 1:].min(1).argmin()]
    found = noise.true_values(reactor, worst)
    assert found["violation"] > 0
    assert not found["is_feasible"]
    assert found["loss"] > 100


# --- Hard starts ------------------------------------------------------------------------------------------------------


def test_a_spare_output_changes_neither_objective_nor_feasibility():
    benchmark = suite.get("bazaraa")
    x = dict(benchmark.known.x)
    for is_constant in (True, False):
        changed = hardstarts.with_spare(benchmark, is_constant=is_constant).problem
        assert changed.outputs == (*benchmark.problem.outputs, "spare")
        Y = changed.evaluate(x)
        values = changed.g(changed.point(x)[None], Y[None, None])
        assert float(values[0].reshape(-1)[0]) == pytest.approx(benchmark.best)
        assert changed.n == benchmark.problem.n + is_constant
    assert changed.structure[0].outputs == benchmark.problem.structure[0].outputs


def test_runs_that_part_at_once_have_no_regret_yet(monkeypatch):
    asked = iter([[[0.1, 0.2]], [[0.1, 0.3]]])
    monkeypatch.setattr(hardstarts, "points_of", lambda *_: next(asked))
    found = hardstarts.in_units(suite.get("booth"), 0, 0, x=10.0)
    assert not found["passed"]
    assert found["figure"].endswith("part at evaluation 1, with a regret of none")


def test_a_case_that_fails_shows():
    made = record("", [])["made"]
    item = {"case": "duplicates", "problem": "booth", "seed": 0, "budget": 5}
    fine = {"item": item, "passed": True, "figure": "regret ~0", "made": made}
    bad = {"item": {**item, "seed": 1}, "passed": False, "figure": "regret 1e-01", "made": made}
    raised = {"item": {**item, "seed": 2}, "error": "KeyError: x", "made": made}
    page = hardstarts.page([fine, bad, raised])
    assert cells(page, "duplicates")[2:] == ["1 of 3", "FAIL"]
    assert "| booth | regret ~0 | **FAIL**: regret 1e-01 | **FAIL**: raised KeyError: x |" in page


# --- Tiny runs --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_ladder_runs_goes_on_and_reports(tmp_path, capsys):
    out, target = tmp_path / "a.jsonl.gz", tmp_path / "a.md"
    words = ["--sets", "suite", "--problems", "bazaraa", "--rungs", "verify never", "design d+1", "--budget", "7"]
    assert ablation.main([*words, "--seeds", "1", "--out", str(out), "--workers", "1"]) == 0
    assert len(slices.read(out)) == 3
    assert ablation.main([*words, "--seeds", "1", "--out", str(out), "--workers", "1"]) == 0
    assert "3 of 3 tasks are done, 0 to do" in capsys.readouterr().err
    ablation.main(["--out", str(out), "--report", "--page", str(target)])
    assert cells(target.read_text(), "verify never")[1] == "1 (1)"
    assert "raised" not in target.read_text().split("## The rungs")[1]


@pytest.mark.slow
def test_a_limit_leaves_what_is_not_done(tmp_path):
    out = tmp_path / "a.jsonl"
    words = ["--sets", "suite", "--problems", "bazaraa", "--rungs", "default", "--budget", "6", "--workers", "1"]
    assert ablation.main([*words, "--out", str(out), "--limit", "0"]) == 3
    assert slices.read(out) == []


@pytest.mark.slow
def test_the_noise_study_judges_every_rule(tmp_path):
    out, target = tmp_path / "n.jsonl", tmp_path / "n.md"
    words = ["--sigmas", "0.01", "--seeds", "1", "--budget", "7", "--workers", "1", "--out", str(out)]
    assert noise.main(words) == 0
    records = slices.read(out)
    assert [record.get("error") for record in records] == [None, None]
    assert all(set(record["rules"]) == set(RULES) and set(record["rules"]["asked"]) == {"7"} for record in records)
    text = noise.main(["--out", str(out), "--report", "--page", str(target)])
    assert text == target.read_text()
    assert "## Williams-Otto, sigma = 0.01" in text
    assert sum(line.startswith(("| ours |", "| the paper's |")) for line in text.splitlines()) == 2 * len(RULES)


@pytest.mark.slow
def test_hard_starts_pass_on_an_easy_problem(tmp_path):
    out, target = tmp_path / "h.jsonl", tmp_path / "h.md"
    words = ["--problems", "bazaraa", "--seeds", "1", "--workers", "1", "--out", str(out)]
    assert hardstarts.main([*words, "--cases", *(case for case in hardstarts.CASES if not case.endswith("units"))]) == 0
    assert hardstarts.main([*words, "--cases", "binary units", "decimal units", "--budget", "2"]) == 0
    text = str(hardstarts.main(["--out", str(out), "--report", "--page", str(target)]))
    for case in hardstarts.CASES:
        assert cells(text, case)[2:] == ["1 of 1", "pass"], text
