"""`CUQB.paper()`: Algorithm 1 with the settings of table 3, to the letter."""

import math

import numpy as np
import pytest

from pied import CUQB, Status, Study, solve, suite
from pied.search.penalty import PenaltySearch
from pied.solvers import frame, make
from tiny import hill, parabola, unchecked


def test_the_settings_are_those_of_table_3() -> None:
    paper = CUQB.paper()
    assert paper.level == 0.95
    assert paper.believer.estimator.samples == 50
    assert paper.believer.estimator.screening == 50
    assert paper.believer.estimator.softness == 0.1
    assert isinstance(paper.search, PenaltySearch)
    assert paper.search.pool == 8192
    assert paper.search.starts == 3
    assert paper.search.penalty == 1e5
    assert Study(suite["ex216"].problem, solver=paper, seed=0).initial == 2 * 10 + 1


def test_the_rest_follows_the_text() -> None:
    """Zero mean, Matern 3/2, maximum likelihood, independent samples, soft sort, eta = 1, no verification."""
    paper = CUQB.paper()
    model, estimator = paper.believer.model, paper.believer.estimator
    assert model.kernels == ("matern 3/2",)
    assert model.trends == ("none",)
    assert model.warps == ("none",)
    assert not model.prior
    assert model.declustering is None
    assert estimator.kind == "soft"
    assert not estimator.closed_forms
    assert not estimator.sobol
    assert isinstance(paper.search, PenaltySearch)
    assert paper.search.temperature == 1.0
    assert paper.verify_every is None
    assert paper.moves == ("feasible", "explore")
    assert not paper.joint
    assert paper.verdict == "single"


def test_it_is_registered_by_name() -> None:
    assert make("cuqb-paper") == CUQB.paper()
    assert make("cuqb-paper") != CUQB()


def test_fifty_samples_at_level_0_95_use_the_48th() -> None:
    """The soft sort of samples less than 1 / 0.1 apart is the sort; ceil(0.95 x 50) = 48."""
    from pied.bounds import quantile

    samples = np.linspace(0.0, 4.9, 50)
    assert float(quantile.soft_order_statistic(samples, 0.95, 0.1)) == pytest.approx(4.7, abs=1e-12)


def test_it_recommends_by_equation_14_unless_told_otherwise() -> None:
    study = Study(parabola(), solver=CUQB.paper(), seed=0)
    study.run(6)
    result = study.result()
    assert result.rule == "asked"
    asked = {trial.number: trial.why.lower[0] for trial in result.trials if trial.why.lower}
    assert set(asked) == {4, 5, 6}
    if result.trial in asked:
        assert asked[result.trial] == max(asked.values())
    assert study.result("observed").rule == "observed"
    assert solve(parabola(), 4, seed=0).rule == "observed"


def test_its_scales_are_the_spreads_whatever_the_constraints_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default divides a constraint with a long tail by less than its spread; the paper's method does not."""
    called = []
    tamed = frame._tamed
    monkeypatch.setattr(frame, "_tamed", lambda *given: called.append(1) or tamed(*given))
    Study(hill(), solver=CUQB.paper(), seed=0).run(6)
    assert not called
    Study(hill(), seed=0).run(6)
    assert called


@pytest.mark.slow
def test_it_never_verifies() -> None:
    result = solve(hill(), 9, seed=0, solver=CUQB.paper())
    assert {trial.why.aim for trial in result.trials[5:]} <= {"explore", "spread"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["booth", "bazaraa"])
@unchecked()
def test_it_runs_end_to_end_and_improves_on_the_initial_design(name: str) -> None:
    study = Study(suite[name].problem, seed=0, solver=CUQB.paper())
    study.run(5)
    start = study.result("observed").value
    result = study.run(5)
    assert result.status is Status.FINISHED
    assert result.evaluations == 10
    assert {trial.why.aim for trial in result.trials[5:]} <= {"explore", "spread"}
    assert result.gap is not None
    assert math.isfinite(result.value)
    assert study.result("observed").value < start  # both are to be made small
