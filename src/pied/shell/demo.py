"""The Williams-Otto reactor as an expensive simulator: from a statement to a recommended operating point.

`pied demo` runs this module. It uses the public interface only, so it also serves as an example.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pied import suite
from pied.errors import SettingError
from pied.plots import history, plot_study
from pied.problem import Named, Problem
from pied.records import State, Trial
from pied.study import Result, Study
from pied.suite.applied import williams_otto

BUDGET = 25
"""Default number of evaluations, at most."""
CLOSE = 2e-3
"""USD/s: when nothing can be better by more than this, the demo ends."""
KNOWN = 75.8199532
"""The optimal profit, by exhaustive search of the truth."""
OPTIMUM = {"F_B": 4.389358, "T_r": 80.494819}
"""The optimal point."""

F_A = 1.8275  # feed of A, kg/s


def profit(x: Named, y: Named) -> Any:
    """Return the value of the products minus the cost of the feeds."""
    return (1043.38 * y.X_P + 20.92 * y.X_E) * (F_A + x.F_B) - 79.23 * F_A - 118.34 * x.F_B


def reactor(x: Named) -> dict[str, float]:
    """Simulate the reactor, the black box, and return the four mass fractions that profit and limits need."""
    fractions = williams_otto(**x)
    return {name: fractions[name] for name in ("X_A", "X_G", "X_P", "X_E")}


def statement() -> Problem:
    """State the problem: two variables, a simulator with four outputs, a known profit, two known limits."""
    return Problem(
        variables={"F_B": (4.0, 7.0), "T_r": (70.0, 100.0)},
        outputs=["X_A", "X_G", "X_P", "X_E"],
        blackbox=reactor,
        maximize=profit,
        subject_to=["X_A <= 0.12", "X_G <= 0.08"],
        noise=0,
    )


INTRODUCTION = """\
The Williams-Otto reactor: choose the feed of B (F_B, kg/s) and the temperature (T_r, degrees Celsius).
The simulator, a black box, returns four mass fractions; profit and limits are known functions of them.
    maximize   (1043.38 X_P + 20.92 X_E) (F_A + F_B) - 79.23 F_A - 118.34 F_B      with F_A = 1.8275
    subject to X_A <= 0.12,  X_G <= 0.08,  4 <= F_B <= 7,  70 <= T_r <= 100"""


def heading() -> str:
    """Return the heading of the progress lines."""
    return f"{'':>4}  {'F_B':>9}  {'T_r':>10}  {'profit':>11}  {'':<10}  {'gap':>9}"


def line(study: Study, trial: Trial) -> str:
    """Return one progress line: number, point, value, feasible or not, gap so far."""
    text = f"{trial.number:>4}  {trial.x.F_B:>9.6f}  {trial.x.T_r:>10.6f}  "
    if trial.state is not State.TOLD:
        return text + f"failed: {trial.reason}"
    shown = history(study.problem, study.trials)
    word = "feasible" if shown.is_feasible[-1] else "infeasible"
    return text + f"{shown.values[-1]:>11.6f}  {word:<10}  {_gap(study.gap()[0]):>9}"


def _gap(gap: float | None) -> str:
    return "-" if gap is None or not math.isfinite(gap) else f"{gap:.3g}"


def report(result: Result) -> str:
    """Return the recommended point with bounds and slacks, next to the known optimum."""
    if result.x is None:
        return result.message
    low, high = result.bounds[result.objective]
    width = max(len(name) for name in result.slack)
    rows = [
        result.message,
        "",
        f"{'':<{width + 2}}  {'recommended':>12}  {'known optimum':>13}",
        f"  {'profit':<{width}}  {result.value:>12.7f}  {KNOWN:>13.7f}    bounds {low:.5f} .. {high:.5f}",
    ]
    rows += [f"  {name:<{width}}  {result.x[name]:>12.6f}  {OPTIMUM[name]:>13.6f}" for name in OPTIMUM]
    rows.append("")
    for name, slack in result.slack.items():
        low, high = result.bounds[name]
        mark = "met" if slack >= 0 else "met within its tolerance" if result.is_feasible else "VIOLATED"
        rows.append(f"  {name:<{width}}  slack {slack:>9.2e}  {mark}    bounds {low:.2e} .. {high:.2e}")
    away = abs(KNOWN - result.value)
    rows += ["", f"  {away:.1e} from the known optimum after {result.evaluations} evaluations, seed {result.seed}"]
    return "\n".join(rows)


def run(
    budget: int = BUDGET,
    *,
    seed: int = 0,
    on_tell: Callable[[Study, Trial], None] | None = None,
) -> tuple[Study, Result]:
    """Run the demo and return the study and its result.

    Args:
        budget: Evaluations.
        seed: Of all random numbers.
        on_tell: Called after each evaluation.
    """
    study = Study(statement(), seed=seed, stop_at_gap=CLOSE)
    return study, study.run(budget, on_tell=on_tell)


def draw(study: Study, file: Path) -> None:
    """Draw history, gap and feasible region, with the evaluated points, to a file.

    Raises:
        MissingExtra: If matplotlib is not installed.
        SettingError: If the file cannot be written.
    """
    truth = suite.get("williams-otto").truth
    try:
        plot_study(study, truth=truth, known=KNOWN, optimum=OPTIMUM, file=file)
    except (OSError, ValueError) as error:  # a full disk, an unknown image format
        raise SettingError(f"the picture cannot be written to '{file}': {error}") from error


def as_data(result: Result, picture: Path | None) -> Mapping[str, Any]:
    """Return the result as data for JSON."""
    return {
        **result.to_dict(),
        "known": {"value": KNOWN, "x": OPTIMUM},
        "picture": None if picture is None else str(picture),
    }
