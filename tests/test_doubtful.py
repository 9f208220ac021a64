"""Measurements that do not fit: which are asked about, which are not, and what is proposed to be done."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pied import Problem, Study
from pied.errors import TellError
from pied.gp import GP, Misfit, Model, misfits
from pied.rng import Stream
from pied.study.doubtful import Doubtful, Remedy
from shells import LAB, data, pied_

CENTRE = np.array([0.6, 0.4])
NEAR = CENTRE + 0.03 * Stream(4).normal(12, 2)
U = np.concatenate([Stream(3).sobol(16, 2), NEAR])
SUSPECT = 16 + int(np.square(NEAR - NEAR.mean(0)).sum(1).argmin())
"""The row in the middle of those close together."""
ISOLATED = int(np.square(U[:16] - CENTRE).sum(1).argmax())
PLAIN = Model(warps=("none",))
NOISE = 0.02 * Stream(5).normal(len(U))


def smooth(V: np.ndarray) -> np.ndarray:
    return np.sin(3 * V[:, 0]) * (1 - (V[:, 1] - 0.4) ** 2)


def found(V: np.ndarray, y: np.ndarray, noise: float | None = None) -> list[Misfit]:
    d = V.shape[1]
    words = {"active": np.ones((1, d), dtype=bool), "ratios": np.ones(d), "noise": [noise], "model": PLAIN}
    return misfits(V, y[:, None], GP.fit(V, y[:, None], **words).choices, **words)


def with_error(row: int, size: float = 0.4, noise: np.ndarray = NOISE) -> np.ndarray:
    y = smooth(U) + noise
    y[row] += size
    return y


# --- What does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "scatter"), [(None, 1.0), (0.02, 1.0), (0.0, 0.0)])
def test_a_gross_error_among_neighbours_is_found_with_what_the_others_expect(noise, scatter) -> None:
    misfit = found(U, with_error(SUSPECT, noise=scatter * NOISE), noise)
    assert [each.row for each in misfit] == [SUSPECT]
    assert misfit[0].probability > 0.9
    assert misfit[0].mean == pytest.approx(smooth(U)[SUSPECT], abs=0.1)


@pytest.mark.slow
def test_two_gross_errors_do_not_hide_behind_each_other() -> None:
    y = with_error(SUSPECT)
    other = 16 + int(np.square(NEAR - U[SUSPECT]).sum(1).argsort()[2])
    y[other] -= 0.4
    assert SUSPECT in [each.row for each in found(U, y)]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [None, 0.0])
def test_what_roughness_explains_is_not_called_an_error(noise) -> None:
    scatter = 0.0 if noise == 0.0 else 1.0
    isolated = with_error(ISOLATED, 2.0, scatter * NOISE)
    assert found(U, isolated, noise) == []  # it could be a ridge
    edge = 16 + int(NEAR[:, 0].argmax())
    cliff = smooth(U) + scatter * NOISE + 2.0 * (U[:, 0] >= U[edge, 0] - 1e-9) * (np.arange(len(U)) >= 16)
    assert found(U, cliff, noise) == []  # the only measurement on the far side


@pytest.mark.slow
def test_honest_noise_is_not_called_an_error() -> None:
    for seed in range(8):
        assert found(U, smooth(U) + 0.02 * Stream(seed).at("honest").normal(len(U))) == []


@pytest.mark.slow
def test_a_repetition_decides() -> None:
    again = np.concatenate([U, U[SUSPECT : SUSPECT + 1]])
    wrong = with_error(SUSPECT)
    assert found(again, np.append(wrong, wrong[SUSPECT] + 0.02)) == []
    assert [each.row for each in found(again, np.append(wrong, smooth(U)[SUSPECT]))] == [SUSPECT]


@pytest.mark.slow
def test_repetitions_that_contradict_each_other_far_from_all_others_are_rivals() -> None:
    every = np.concatenate([np.repeat(U[:10], 3, 0), [[0.98, 0.98], [0.98, 0.98]]])
    y = smooth(every) + 0.02 * Stream(6).normal(len(every))
    y[-1] = y[-2] + 1.0
    misfit = found(every, y)
    assert len(misfit) == 1
    assert misfit[0].row in (30, 31)


# --- What a study says ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study() -> Study:
    problem = Problem({"T": (0, 1), "c": (0, 1)}, ["yield"], maximize="yield")
    made = Study(problem, seed=1)
    for u, y in zip(U, with_error(SUSPECT), strict=True):
        made.add(u, [y])
    return made


@pytest.mark.slow
def test_a_study_asks_waits_and_then_says_what_to_strike(study) -> None:
    number = SUSPECT + 1
    result = study.result()
    assert [each.trial for each in result.doubtful] == [number]
    doubtful = result.doubtful[0]
    assert doubtful.remedy is Remedy.REPEAT
    assert doubtful.expected[0] < doubtful.expected[1] < doubtful.expected[2] < doubtful.told
    assert f"trial {number} does not fit: yield" in str(result)
    assert f"Measure it again? study.repeat({number})" in str(result)
    assert "does not fit" in result._repr_html_()
    assert json.loads(json.dumps(result.to_dict()["doubtful"]))[0]["remedy"] == "repeat"

    trial = study.repeat(number)
    assert dict(trial.x) == dict(study.trials[SUSPECT].x)
    assert trial.why.repeats == number
    assert f"Trial {trial.number} repeats it" in str(study.result())
    with pytest.raises(TellError, match="has not been measured yet"):
        study.repeat(trial)

    study.tell(trial, [smooth(U)[SUSPECT]])
    (doubtful,) = study.result().doubtful
    assert doubtful.remedy is Remedy.STRIKE
    assert [each for each, _ in doubtful.repetitions] == [trial.number]
    assert f"study.withdraw({number}, why=...)" in str(doubtful)
    study.withdraw(number, why="sample mixed up")
    assert study.result().doubtful == ()


def test_rivals_are_both_named() -> None:
    pair = Doubtful(14, "yield", 61.2, (44.0, 45.5, 47.0), 0.95, ((31, 45.1),), rival=31, unit="%")
    assert pair.remedy is Remedy.REPEAT
    assert str(pair) == (
        "trials 14 and 31 contradict each other: yield 61.2 and 45.1 % at the same settings. Measure a third time? "
        "study.repeat(14)"
    )


def test_the_shell_proposes_a_trial_once_more(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lab.toml").write_text(LAB, encoding="utf-8")
    first = data("ask", "lab.toml")
    pied_("tell", "lab.toml", "1", "product=0.4", "impurity=0.05")
    again = data("ask", "lab.toml", "--repeat", "1")
    assert again["x"] == first["x"]
    assert again["repeats"] == 1
    assert data("result", "lab.toml")["doubtful"] == []


# --- The benchmark ----------------------------------------------------------------------------------------------------


def test_the_benchmark_counts_false_alarms_and_what_is_found() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
    doubtful = importlib.import_module("doubtful")

    def record(gross: bool, errors: list[list[int]], said: list[list[int]]) -> dict[str, object]:
        item = {"kind": "gp", "problem": "0:gp", "noise": "normal", "gross": gross, "seed": 0}
        return {"item": item, "errors": errors, "found": said, "design": 10}

    records = [record(False, [], []), record(False, [], [[3, 0]]), record(True, [[2, 0], [12, 1]], [[12, 1], [4, 0]])]
    assert doubtful.row_of("gp", "normal", records) == ["gp", "normal", "1 of 2", "1 of 2", "50 %", "1 of 1", "1"]
