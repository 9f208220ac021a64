"""Earlier campaigns and sister equipment: related outputs, not equal ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import Problem, Study, TellError
from pied.bounds import Believer
from pied.gp import GP, Model, ModelChoice, alike
from pied.gp.observations import CAMPAIGN_SHARE
from pied.rng import Stream
from shells import data, pied_


def related(seed: int, offset: float = 0.7, noise: float = 0.02) -> tuple[Any, Any, list[str]]:
    """Return fourteen rows of 2025 and four of the present campaign: points, values, campaigns."""
    U = Stream(seed).at("points").uniform(18, 1)
    names = ["2025"] * 14 + [""] * 4
    own = np.array([[offset if name else 0.0] for name in names])
    return U, np.sin(5 * U) + own + noise * Stream(seed).at("noise").normal(18, 1), names


def test_belief_and_offset_are_those_of_the_joint_normal_distribution() -> None:
    U, Y, names = related(1)
    nugget, length, apart = 0.01, 0.5, 1.5
    theta = (np.log(length), np.log(apart), np.log(nugget))
    choice = ModelChoice("matern 5/2", "constant", "none", "plain", theta, 18, 18, campaigns=("2025",))
    words: Any = {"active": np.ones((1, 1), dtype=bool), "ratios": np.ones(1), "noise": [0.1], "model": Model()}
    gp = GP.at_choices(U, Y, [choice], campaigns=names, **words)
    new = Stream(2).uniform(5, 1)
    old = np.array([float(bool(name)) for name in names] + [0.0] * 5)
    X = np.stack([np.concatenate([U, new])[:, 0] / length, old / apart], 1)
    r = np.sqrt(5 * np.square(X[:, None] - X).sum(-1))
    K = (1 + r + r**2 / 3) * np.exp(-r)
    K[:18, :18] += nugget * np.eye(18) + CAMPAIGN_SHARE * np.outer(old[:18], old[:18])
    told, rest = slice(0, 18), slice(18, 23)
    inverse, one = np.linalg.inv(K[told, told]), np.ones((18, 1))
    A = 1 / (one.T @ inverse @ one)
    beta = A * (one.T @ inverse @ Y)
    mean = beta + K[rest, told] @ inverse @ (Y - beta)
    left = 1 - K[rest, told] @ inverse @ one
    shape = K[rest, rest] - K[rest, told] @ inverse @ K[told, rest] + left @ A @ left.T
    found, deviation = gp.moments(new)
    np.testing.assert_allclose(found, mean, rtol=1e-6)
    variance = 0.1**2 / nugget
    np.testing.assert_allclose(deviation[:, 0] ** 2, variance * np.diagonal(shape), rtol=1e-5)
    pull = CAMPAIGN_SHARE * old[:18] @ inverse
    np.testing.assert_allclose(gp.offsets[0][0], pull @ (Y - beta)[:, 0], rtol=1e-6)
    own = CAMPAIGN_SHARE - CAMPAIGN_SHARE * pull @ old[:18] + (pull @ one).item() ** 2 * A.item()
    np.testing.assert_allclose(gp.offsets[1][0] ** 2, variance * own, rtol=1e-5)
    at = np.sqrt(5) / apart
    np.testing.assert_allclose(alike(gp), (1 + at + at**2 / 3) * np.exp(-at), rtol=1e-9)


def lab_study(**words: Any) -> Study:
    return Study(Problem({"x": (0.0, 1.0)}, ["p"], maximize="p"), seed=1, **words)


def told(study: Study, U: Any, Y: Any, names: list[str]) -> None:
    rows = zip(U[:, 0].tolist(), Y[:, 0].tolist(), names, strict=True)
    study.add_all([({"x": u}, {"p": y}, "", name) for u, y, name in rows])


def test_how_a_campaign_is_related_is_told_and_one_that_misleads_is_left_out() -> None:
    U, Y, names = related(3)
    with lab_study() as study:
        told(study, U, Y, names)
        (found,) = study.result().campaigns
        assert found.count == 14
        assert found.offset == pytest.approx(0.7, abs=0.1)
        assert found.lower < 0.7 < found.upper
        assert any(line.startswith("2025: p reads 0.") and "closely" in line for line in study.result().remarks())
    U, Y, names = related(3)
    Y[:14] = Stream(4).normal(14, 1)
    with lab_study() as study:
        told(study, U, Y, names)
        assert study.result().campaigns[0].is_left_out
        believer, new = Believer(), np.linspace(0, 1, 9)[:, None]
        fits = [believer.fit(study.problem, each) for each in (study.data, replace(study.data, earlier_campaigns=None))]
        np.testing.assert_allclose(*(each.moments(new)[0] for each in fits), rtol=1e-6)


def test_old_rows_alone_state_nothing() -> None:
    U, Y, names = related(5)
    with lab_study() as study:
        told(study, U[:14], Y[:14], names[:14])
        found = study.result()
        assert found.x is None
        assert found.gap is None or found.gap == np.inf
        assert study.ask().why.aim == "initial"
        study.tell(15, {"p": 0.3})
        found = study.result()
        assert found.trial == 15
        assert "2025: how p there is related to the present one is not known yet." in found.remarks()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_campaign_is_kept_corrected_and_in_the_history(kind: str, tmp_path: Path) -> None:
    place = None if kind == "memory" else str(tmp_path / "lab.db")
    with lab_study(name="lab", store=place, solver="random") as study:
        study.add({"x": 0.5}, {"p": 0.5}, campaign="2025")
        study.tell(study.ask(), {"p": 0.1}, campaign="reactor B")
        study.tell(study.ask(), {"p": 0.2})
        with pytest.raises(TellError, match="trial 3 counts as measured without a campaign, not in '2025': correct it"):
            study.tell(3, {"p": 0.2}, campaign="2025")
        study.correct(3, campaign="2025", why="last year's sheet")
        study.correct(2, campaign="", why="it was ours")
        assert "campaign: 2025 (last year's sheet)" in [each.what for each in study.history(3)]
        assert "campaign: the present one instead of reactor B (it was ours)" in [
            each.what for each in study.history(2)
        ]
    with lab_study(name="lab", store=place) if place else study as study:
        assert [each.campaign for each in study.trials] == ["2025", "", "2025"]
        if place:
            assert study.data.numbers == (2,)
            assert study.data.earlier_campaigns.campaigns == ("2025", "2025")


def test_the_shell_and_tables_name_campaigns(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product,impurity\n80,2,0.5,0.1\n81,2,0.6,0.1\n")
    assert "name a table" in pied_("add", "lab.toml", code=2).stderr
    with (lab / "lab.toml").open("a") as file:
        file.write('\n[campaigns]\n2025 = "old.csv"\n')
    assert pied_("add", "lab.toml").output == "2025: 2 rows added\n"
    assert data("ask", "lab.toml")["trial"] == 3
    assert data("tell", "lab.toml", "3", "product=0.5", "impurity=0.1", "--campaign", "B")["campaign"] == "B"
    pied_("export", "lab.toml", "--output", "out.csv")
    assert ",2025," in (lab / "out.csv").read_text()
    pied_("add", "lab.toml", "out.csv", "--store", "other.db")
    text = pied_("export", "lab.toml", "--store", "other.db").output
    assert ",2025," in text
    assert ",B," in text
    assert "campaign 2025" in pied_("status", "lab.toml").output
    said = pied_("correct", "lab.toml", "3", "--campaign", "", "--why", "swapped").output
    assert "campaign: the present one instead of B" in said
