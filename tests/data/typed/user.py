"""A user's program, as strict as mypy can be: what it says about types must hold without a cast."""

from pathlib import Path

import pied
from pied import plots, suite


def kettle(x: pied.Named) -> dict[str, float]:
    """A black box."""
    return {"y": float(x["a"]) ** 2}


def campaign(folder: Path) -> dict[str, float]:
    """State, run, ask, tell and read."""
    problem = pied.Problem(
        {"a": pied.Variable(0.0, 1.0), "n": pied.Integer(1, 4)}, ["y"], blackbox=kettle, minimize="y + 0.1*n", noise=0
    )
    with pied.Study(problem, name="kettle", store=f"sqlite:///{folder / 'kettle.db'}", seed=0) as study:
        result: pied.Result = study.run(6)
        trial: pied.Trial = study.ask()
        study.tell(trial, {"y": 0.5})
        states: list[pied.State] = [each.state for each in study.trials]
        course: plots.History = plots.history(problem, study.trials)
        assert states
        assert course
    if result.status is pied.Status.INFEASIBLE or result.value is None:
        return {}
    known: suite.Known | None = suite.get("booth").known
    return {"value": result.value} if known is None else {"value": result.value, "known": known.value}


def guarded(formula: str) -> str:
    """Errors have types, too."""
    try:
        return repr(pied.Problem({"a": (0.0, 1.0)}, ["y"], maximize=formula))
    except pied.FormulaError as error:
        return str(error)


if __name__ == "__main__":
    best = pied.maximize("y", budget=5, variables={"a": (0.0, 1.0)}, outputs=["y"], blackbox=kettle, solver=pied.CUQB())
    print(best.value, campaign(Path()), guarded("y +"))
