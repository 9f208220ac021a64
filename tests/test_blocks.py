"""Blocks: measurements of one day, operator or batch that are off together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import Problem, SettingError, Study, TellError
from pied.gp import GP, Model, ModelChoice, Paths, in_block
from pied.rng import Stream
from shells import data, pied_

DAYS = ("Mon", "Tue", "Wed")
OFF = {"Mon": 0.0, "Tue": -0.4, "Wed": 0.3}


def shifted(seed: int, size: float = 1.0, noise: float = 0.05) -> tuple[Any, Any, list[str]]:
    U, draw = Stream(seed).at("points").uniform(18, 1), Stream(seed).at("noise").normal(18, 1)
    days = [DAYS[place % 3] for place in range(18)]
    return U, np.sin(4 * U) + size * np.array([[OFF[day]] for day in days]) + noise * draw, days


def test_belief_and_offsets_are_those_of_the_joint_normal_distribution() -> None:
    U, Y, days = shifted(1)
    nugget, share, length = 0.01, 0.5, 0.5
    theta = (np.log(length), np.log(nugget))
    choice = ModelChoice("squared exponential", "constant", "none", "plain", theta, 18, 18, share=share)
    words: Any = {"active": np.ones((1, 1), dtype=bool), "ratios": np.ones(1), "noise": [0.1], "model": Model()}
    gp = GP.at_choices(U, Y, [choice], together=days, **words)
    new = Stream(2).uniform(5, 1)

    def kernel(A: Any, B: Any) -> Any:
        return np.exp(-0.5 * ((A - B.T) / length) ** 2)

    Z = np.array([[float(day == each) for each in DAYS] for day in days])
    C = np.eye(3) - 1 / 3
    joint = np.concatenate([U, new])  # of told values, new points and the three offsets
    K = np.zeros((26, 26))
    K[:23, :23] = kernel(joint, joint)
    K[:18, :18] += nugget * np.eye(18) + share * Z @ C @ Z.T
    K[23:, 23:] = share * C
    K[:18, 23:] = share * Z @ C
    K[23:, :18] = K[:18, 23:].T
    F = np.concatenate([np.ones(23), np.zeros(3)])[:, None]
    told, rest = slice(0, 18), slice(18, 26)
    inverse = np.linalg.inv(K[told, told])
    A = np.linalg.inv(F[told].T @ inverse @ F[told])
    beta = A @ F[told].T @ inverse @ Y
    mean = F[rest] @ beta + K[rest, told] @ inverse @ (Y - F[told] @ beta)
    apart = F[rest] - K[rest, told] @ inverse @ F[told]
    shape = K[rest, rest] - K[rest, told] @ inverse @ K[told, rest] + apart @ A @ apart.T
    variance = 0.1**2 / nugget
    found, deviation = gp.moments(new)
    np.testing.assert_allclose(found[:, 0], mean[:5, 0], rtol=1e-6)
    np.testing.assert_allclose(deviation[:, 0] ** 2, variance * np.diagonal(shape)[:5], rtol=1e-5)
    there = in_block(gp, "Tue")
    found, deviation = there.moments(new)
    own = np.diagonal(shape)[:5] + shape[6, 6] + 2 * shape[:5, 6]
    np.testing.assert_allclose(found[:, 0], mean[:5, 0] + mean[6, 0], rtol=1e-6)
    np.testing.assert_allclose(deviation[:, 0] ** 2, variance * own, rtol=1e-5)
    step = 1e-6
    slopes = (there.moments(new + step)[0] - there.moments(new - step)[0]) / (2 * step)
    np.testing.assert_allclose(there.moments_and_slopes(new)[2][:, :, 0], slopes, rtol=1e-4, atol=1e-6)
    drawn = Paths.of(there, 1000, Stream(3)).values(new)[:, :, 0]
    np.testing.assert_allclose(drawn.mean(0), found[:, 0], atol=0.15 * deviation.max())
    np.testing.assert_allclose(drawn.std(0), deviation[:, 0], rtol=0.15)
    off, spread = gp.offsets
    np.testing.assert_allclose(off[0], mean[5:, 0], rtol=1e-6)
    np.testing.assert_allclose(spread[0] ** 2, variance * np.diagonal(shape)[5:], rtol=1e-5)


def test_offsets_are_worth_knowing_and_cost_little_where_there_are_none() -> None:
    new = np.linspace(0, 1, 100)[:, None]
    ratios = {}
    for size in (1.0, 0.0):
        off = []
        for seed in range(3):
            U, Y, days = shifted(seed, size)
            truth = np.sin(4 * new) + size * np.mean(list(OFF.values()))
            fits = [GP.fit(U, Y, noise=[None], together=each) for each in (days, ())]
            off.append([float(np.abs(gp.unwarp(gp.moments(new)[0]) - truth).mean()) for gp in fits])
        ratios[size] = float(np.median([known / ignored for known, ignored in off]))
    assert ratios[1.0] < 0.6
    assert ratios[0.0] < 1.15


def lab_study(**words: Any) -> Study:
    return Study(Problem({"x": (0.0, 1.0)}, ["p"], maximize="p"), seed=1, **words)


def test_what_blocks_are_off_by_is_told() -> None:
    U, Y, days = shifted(3)
    with lab_study() as study:
        for u, y, day in zip(U[:, 0].tolist(), Y[:, 0].tolist(), days, strict=True):
            study.add({"x": u}, {"p": y}, block=day)
        result = study.result()
        found = {each.block: each for each in result.blocks}
        for day, off in OFF.items():
            assert found[day].offset == pytest.approx(off - np.mean(list(OFF.values())), abs=0.08)
            assert found[day].count == 6
        assert found["Tue"].is_clear
        assert any(line.startswith("Tue reads p 0.3") and "lower" in line for line in result.remarks())
        assert result.to_dict()["blocks"][1]["block"] == "Tue"


def test_settings_are_recommended_and_proposed_for_what_a_block_reads() -> None:
    problem = Problem({"x": (0.0, 1.0)}, ["p"], maximize="x", subject_to=["p <= 0.5"], noise=0.01)
    U, draw = Stream(5).at("points").uniform(16, 1), Stream(5).at("noise").normal(16, 1)
    with Study(problem, seed=1) as study:
        for place, (u, off) in enumerate(zip(U[:, 0].tolist(), draw[:, 0].tolist(), strict=True)):
            low = place % 2 == 0
            study.add({"x": u}, {"p": u + 0.01 * off + (-0.15 if low else 0.15)}, block="low" if low else "high")
        found = {name: study.result(block=name) for name in ("low", "high", "")}
        x = {name: float(dict(each.x or {})["x"]) for name, each in found.items()}
        assert x["low"] == pytest.approx(0.65, abs=0.05)
        assert x["high"] == pytest.approx(0.35, abs=0.05)
        assert x["high"] + 0.1 < x[""] < x["low"] - 0.1
        assert str(found["low"]).startswith("For block low: ")
        asked = [float(study.ask(block=name, again=False).x["x"]) for name in ("low", "high")]
        assert asked[0] > asked[1] + 0.15
        with pytest.raises(SettingError, match="nothing was measured in block 'Mon'; blocks: high, low"):
            study.result(block="Mon")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_block_is_kept_corrected_and_in_the_history(kind: str, tmp_path: Path) -> None:
    place = None if kind == "memory" else str(tmp_path / "lab.db")
    with lab_study(name="lab", store=place, solver="random") as study:
        study.add({"x": 0.5}, {"p": 0.5}, block="Mon")
        used = [study.ask(block=DAYS, again=False).block for _ in range(4)]
        assert used == ["Tue", "Wed", "Mon", "Tue"]
        study.tell(2, {"p": 0.1})
        assert study.trials[1].block == "Tue"
        with pytest.raises(TellError, match="trial 2 counts as measured in block 'Tue', not in 'Mon': correct it"):
            study.tell(2, {"p": 0.1}, block="Mon")
        study.correct(2, block="Mon", why="wrong sheet")
        assert "block: Mon instead of Tue (wrong sheet)" in [each.what for each in study.history(2)]
        assert study.trials[1].corrected == 1
    if place is not None:
        with lab_study(name="lab", store=place) as study:
            assert [each.block for each in study.trials] == ["Mon", "Mon", "Wed", "Mon", "Tue"]
            assert study.data.blocks == ("Mon", "Mon")


def test_the_shell_and_tables_name_blocks(lab: Path) -> None:
    assert data("ask", "lab.toml", "--block", "R1", "--block", "R2")["block"] == "R1"
    assert data("tell", "lab.toml", "1", "product=0.5", "impurity=0.1")["block"] == "R1"
    (lab / "old.csv").write_text("temperature,time,product,impurity,day\n80,2,0.5,0.1,Mon\n81,2,0.5,0.1,Tue\n")
    pied_("add", "lab.toml", "old.csv", "--block", "day")
    pied_("export", "lab.toml", "--output", "out.csv")
    text = (lab / "out.csv").read_text()
    assert ",block," in text
    assert ",Mon," in text
    pied_("add", "lab.toml", "out.csv", "--store", "other.db")
    assert ",R1," in pied_("export", "lab.toml", "--store", "other.db").output
    assert "block Mon" in pied_("status", "lab.toml").output
    assert "block: R2 instead of R1" in pied_("correct", "lab.toml", "1", "--block", "R2", "--why", "swapped").output
