"""A driver for OpenMDAO that knows the formulas around what its model computes."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pied.errors import MissingExtra, StatementError
from pied.problem import Named, Problem
from pied.study import Result, Study

try:
    from openmdao.core.driver import Driver, RecordingDebugging
except ImportError as error:
    raise MissingExtra("the driver for OpenMDAO", "openmdao", "openmdao") from error


class PiedDriver(Driver):  # type: ignore[misc]
    """Optimize a costly OpenMDAO model; objective and constraints may be formulas of a few of its outputs.

    Without formulas, objective and constraints are those that the model declares. In formulas, elements of vectors are
    numbered from 0 (`z_1`), and what is no letter or digit in a name is written `_`. `driver.answer` has the result.

    Example: `docs/connect.md`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports["optimization"] = True
        self.supports["inequality_constraints"] = True
        self.supports["integer_design_vars"] = False
        self.supports._read_only = True
        self.answer: Result | None = None

    def _declare_options(self) -> None:
        declare = self.options.declare
        declare("budget", default=30, types=int, lower=1, desc="Evaluations of the model.")
        declare("seed", default=None, types=int, allow_none=True, desc="Of everything random.")
        declare("outputs", default={}, types=dict, desc="Names in formulas of outputs of the model, by their paths.")
        declare("minimize", default=None, types=str, allow_none=True, desc="The objective as a formula.")
        declare("maximize", default=None, types=str, allow_none=True, desc="The objective as a formula.")
        declare("subject_to", default={}, types=dict, desc="Limits as formulas by name, instead of the model's own.")
        declare("noise", default=0, desc="Standard deviation of the outputs; 0: exact.")
        declare("solver", default=None, desc="As in pied.Study.")

    def _get_name(self) -> str:
        return "pied"

    def run(self) -> bool:
        """Evaluate the model within the budget, leave it at the recommended settings; return whether that failed."""
        self.result.reset()
        self.iter_count = 0
        problem = self._stated()
        words = {} if self.options["solver"] is None else {"solver": self.options["solver"]}
        with Study(problem, seed=self.options["seed"], **words) as study:
            self.answer = study.run(self.options["budget"], progress=False)
        if self.answer.x is None:
            return True
        self._evaluated(dict(self.answer.x))
        return not self.answer.is_feasible

    def _stated(self) -> Problem:
        """Return the problem: design variables, what is read from the model, and what is sought."""
        variables = {}
        for name, meta in self._designvars.items():
            ends = (np.broadcast_to(meta[end], meta["size"]) for end in ("lower", "upper"))
            for each, (low, high) in zip(_elements(name, meta["size"]), zip(*ends, strict=True), strict=True):
                variables[each] = (float(low), float(high))
        sense = "maximize" if self.options["maximize"] else "minimize"
        formula = self.options[sense]
        self._read = dict(self.options["outputs"])
        limits = dict(self.options["subject_to"])
        if formula is None:
            ((path, _),) = self._objs.items()
            formula = _plain(path)
            self._read[formula] = path
        if not limits:
            limits = self._own_limits()
        outputs = [name for each, path in self._read.items() for name in _elements(each, self._size(path))]
        words = {"subject_to": limits, "noise": self.options["noise"], sense: formula}
        return Problem(variables, outputs, blackbox=self._evaluated, **words)

    def _own_limits(self) -> dict[str, str]:
        """Return the constraints of the model as formulas of their values."""
        limits = {}
        for path, meta in self._cons.items():
            if meta["equals"] is not None:
                raise StatementError(f"'{path}' is an equality: state it in subject_to, as two limits")
            name = _plain(path)
            self._read[name] = path
            for sign, end in ((">=", "lower"), ("<=", "upper")):
                if meta[end] is None:
                    continue
                bounds = np.broadcast_to(meta[end], meta["size"]).tolist()
                for each, bound in zip(_elements(name, meta["size"]), bounds, strict=True):
                    if abs(bound) < 1e29:  # OpenMDAO's infinity is 1e30
                        limits[f"{each} {end}"] = f"{each} {sign} {bound!r}"
        return limits

    def _size(self, path: str) -> int:
        return int(np.size(self._problem().get_val(path)))

    def _evaluated(self, x: Mapping[str, float] | Named) -> dict[str, float]:
        """Run the model at a point and return what is read from it."""
        case = self._problem()
        for name, meta in self._designvars.items():
            case.set_val(name, [x[each] for each in _elements(name, meta["size"])], units=meta["units"])
        with RecordingDebugging(self._get_name(), self.iter_count, self):
            self._run_solve_nonlinear()
        self.iter_count += 1
        found: dict[str, float] = {}
        for name, path in self._read.items():
            values = np.ravel(case.get_val(path)).tolist()
            found.update(zip(_elements(name, len(values)), values, strict=True))
        return found


def _plain(path: str) -> str:
    return re.sub(r"\W", "_", path)


def _elements(path: str, size: int) -> list[str]:
    """Return the names of the elements of a variable."""
    name = _plain(path)
    return [name] if size == 1 else [f"{name}_{place}" for place in range(size)]
