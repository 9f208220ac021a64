"""Connections to other libraries, each tried with the real package, on its own example where it has one."""

from typing import Any

import numpy as np
import pytest

from pied import StatementError, TellError

# --------------------------------------------------------------------------------------------------------------- Optuna


@pytest.fixture
def optuna() -> Any:
    """Optuna, quiet."""
    found = pytest.importorskip("optuna")
    found.logging.set_verbosity(found.logging.WARNING)
    return found


def measured(sampler: Any) -> Any:
    """The objective function of a user: minimize price*a + (y - 2)^2 with y = a^2/2 and z = a*b <= 1.5, at b = 0.5."""

    def objective(trial: Any) -> float:
        a, b = trial.suggest_float("a", 0, 4), trial.suggest_float("b", 0.5, 1)
        if trial.number == 3:
            raise ArithmeticError("the simulator failed")
        return sampler.value(trial, {"y": a**2 / 2, "z": a * b})

    return objective


def sampled(**more: Any) -> Any:
    from pied.connect.optuna import PiedSampler

    words: dict[str, Any] = {
        "outputs": ["y", "z"], "minimize": "price*a + (y - 2)**2", "subject_to": ["z <= 0.9"],
        "constants": {"price": 0.1}, "noise": 0, "seed": 0,
    }  # fmt: skip
    return PiedSampler(**(words | more))


def test_optuna_finds_the_optimum_by_the_formula_and_goes_on_from_its_own_record(optuna: Any) -> None:
    sampler = sampled()
    study = optuna.create_study(sampler=sampler)
    study.optimize(measured(sampler), 7, catch=ArithmeticError)
    study.sampler = again = sampled()  # another process: all it knows is Optuna's record
    study.optimize(measured(again), 4)
    assert study.best_value == pytest.approx(0.18 + (1.8**2 / 2 - 2) ** 2, abs=0.02)  # z is 0.9 there
    assert max(study.best_trial.constraints.values()) <= 1e-6
    answer = again.result(study)
    assert answer.value == pytest.approx(study.best_value, abs=0.01)
    assert dict(answer.x) == pytest.approx(study.best_params, abs=0.01)
    assert len(answer.failures) == 1


def test_optuna_without_a_formula_with_every_kind_of_setting(optuna: Any) -> None:
    sampler = sampled(outputs=("value",), minimize=None, subject_to=(), constants=None, noise=None)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.enqueue_trial({"n": 4, "s": 0.5, "c": None, "r": 2.0})

    def objective(trial: Any) -> float:
        n, s = trial.suggest_int("n", 2, 8, step=2), trial.suggest_float("s", 0, 1, step=0.25)
        c, r = trial.suggest_categorical("c", ["a", None, 3]), trial.suggest_float("r", 1e-2, 1e2, log=True)
        return (n - 4) ** 2 + s + (c is not None) + abs(np.log10(r))

    study.optimize(objective, 6)
    seen = [trial.params for trial in study.trials]
    assert all(each["n"] in (2, 4, 6, 8) and isinstance(each["n"], int) for each in seen)
    assert all(each["s"] in (0, 0.25, 0.5, 0.75, 1) and each["c"] in ("a", None, 3) for each in seen)
    assert sampler.result(study).value <= study.best_value + 1e-9


def test_optuna_is_told_what_does_not_fit(optuna: Any) -> None:
    with pytest.raises(StatementError, match="direction is maximize"):
        optuna.create_study(direction="maximize", sampler=(sampler := sampled())).optimize(measured(sampler), 1)
    with pytest.raises(TellError, match="no outputs: the objective returns"):
        optuna.create_study(sampler=sampled()).optimize(
            lambda trial: trial.suggest_float("a", 0, 4) + trial.suggest_float("b", 0.5, 1), 2
        )


# ------------------------------------------------------------------------------------------------------------- OpenMDAO


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["formulas", "nothing"])
def test_openmdao_solves_its_own_example(knows: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    om = pytest.importorskip("openmdao.api")
    from openmdao.test_suite.components.sellar_feature import SellarMDA

    from pied.connect.openmdao import PiedDriver

    monkeypatch.chdir(tmp_path)  # where it writes its reports
    formulas: dict[str, Any] = {
        "outputs": {"y1": "y1", "y2": "y2"}, "minimize": "x**2 + z_1 + y1 + exp(-y2)",
        "subject_to": {"con1": "y1 >= 3.16", "con2": "y2 <= 24"},
    }  # fmt: skip
    case = om.Problem(model=SellarMDA(), reports=False)
    case.driver = PiedDriver(budget=18, seed=0, **(formulas if knows == "formulas" else {}))
    case.model.add_design_var("x", lower=0, upper=10, ref=5.0)
    case.model.add_design_var("z", lower=0, upper=10)
    case.model.add_objective("obj")
    case.model.add_constraint("con1", upper=0)
    case.model.add_constraint("con2", upper=0, ref=2.0)
    case.setup()
    case.set_solver_print(level=-1)
    assert case.run_driver().success
    assert case.get_val("obj")[0] == pytest.approx(3.18339, abs=1e-2)  # as its documentation has it
    assert case.driver.answer.value == pytest.approx(case.get_val("obj")[0], abs=1e-6)
