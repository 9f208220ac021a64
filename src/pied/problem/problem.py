"""The statement of a partly known problem: variables, outputs, objective and constraints, in the user's units."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError, UnknownName, did_you_mean
from pied.problem import equalities, slices, slicing, validation
from pied.problem.candidates import Listing
from pied.problem.choices import choices_of
from pied.problem.folding import folded_black_box, folded_functions
from pied.problem.formula import Formula, Scope
from pied.problem.functions import Functions
from pied.problem.goals import Goal, read_goals, read_units, several_goals, stored_goal
from pied.problem.grids import Grid
from pied.problem.identity import described
from pied.problem.limits import moved_limits
from pied.problem.models import Models
from pied.problem.named import Function
from pied.problem.signatures import plain
from pied.problem.spaces import named_places
from pied.problem.structure import POINTS_TRIED, Structure
from pied.problem.unknowns import Unknowns
from pied.problem.variables import Box
from pied.problem.white_box import WhiteBox
from pied.rng import Stream
from pied.shapes import Bool, Float64

TRIED_MARGIN = 1e-6
"""Distance of tried points from the faces of the unit cube: functions often have singularities exactly on bounds."""


class Problem(Functions):
    """A partly known problem: maximize g_0(x, h(x)) subject to g_i(x, h(x)) >= 0, x in a box.

    A problem does not change once it is stated (`revised` makes another one). `g` changes the sign of an objective
    that is minimized, so solvers always maximize, and every constraint is >= 0.

    Example: `docs/guide-simulator.md`.
    """

    _words: dict[str, Any]
    held: dict[str, str]
    """The linear equalities among variables, by name: every proposal meets them exactly."""
    _inputs: Bool[ndarray, "m v"]
    _own_names: tuple[str, ...]
    _further: tuple[tuple[str, Function], ...]
    _whole: tuple[WhiteBox, tuple[Structure, ...]]
    _solved_for: Unknowns | None = None
    _kept: tuple[str, ...] = ()
    """Variables that stay coordinates if possible, because their values are given."""

    def __init__(
        self,
        variables: Any = None,
        outputs: Any = None,
        *,
        candidates: Any = None,
        blackbox: Any = None,
        maximize: Any = None,
        minimize: Any = None,
        subject_to: Any = None,
        inputs: Any = None,
        noise: Any = None,
        ranges: Any = None,
        constants: Any = None,
        tolerance: Any = None,
        name: Any = None,
        unit: Any = "",
        models: Any = None,
        unknowns: Any = None,
        equations: Any = None,
    ) -> None:
        """State a problem; all arguments are checked, and all functions called on a tiny batch, before any evaluation.

        Args:
            variables: `{name: (lo, hi)}` or `{name: Variable(lo, hi, log=True, unit="K")}`, natural units; with
                candidates, the names of the columns are enough, or nothing if the table names them.
            outputs: Names of what the black box returns, in order; described as `{"y": {"unit": "mol/L", "lod": 0.02,
                "resolution": 0.01, "model": "2*T"}}`: the limit of detection that "n.d." stands for, the step of its
                readings, its model. 54 and `{"y": 54}` are the elements of a vector, y[1] to y[54].
            candidates: A table of the only points that can be chosen: a data frame, a dictionary of columns, a list of
                dictionaries, or an array with a column for each variable. Each search looks at every candidate.
            blackbox: Function of x (named floats, one point), or of variables by their names, that returns the
                outputs: a mapping by name, a sequence in order, or a number if there is one output. One that takes
                `near` is given the nearest told point, or None, to start from; `state` beside it, a folder in which
                to leave files for later points. None if someone else measures and tells.
            maximize: A formula, a Python function of (x, y) at one point, an expression of SymPy or a function of
                CasADi; with its name as `{"profit": "price*y"}`. Without an objective any feasible point is a solution.
                Several, each with its name, ask for the front of the best trade-offs.
            minimize: The same, for the smallest value; give one of the two, or both with names.
            subject_to: `{name: function or formula}`, or a list of formulas. A function is met if >= 0, a formula
                has a comparison.
            inputs: Variables that the outputs depend on: one list for all, or `{output: [variables]}`; None for all.
            noise: Standard deviation of the outputs' errors, natural units: a number, or `{output: number}`; 0 for an
                exact simulator, None (also for outputs left out) to learn it.
            ranges: `{output: (lo, hi)}`, the possible values of an output, None for an open end.
            constants: Named numbers or lists of numbers for formulas.
            tolerance: How far below zero a constraint may be and still count as met: a number, or by constraint.
            name: What the objective is called: "profit".
            unit: The unit of the objective: "EUR/h"; of several, `{"profit": "EUR/h", "energy": "kW"}`.
            models: What is known of outputs beforehand: `{output: formula or function of x}`, or one function of x that
                returns all outputs; a formula may use other outputs, which stand for their models. What a model leaves
                is learned, and a model that does not help is left out.
            unknowns: What equations determine, with the range in which it is sought: `{"recycle": (0, 50)}`. The
                objective and the limits may use it like an output; of several solutions of one unknown, the lowest.
            equations: As many as unknowns: formulas "a == b" of variables, outputs and unknowns, or functions of (x, y)
                that are 0.
        """
        several, given = several_goals(maximize, minimize, name), (maximize, minimize)
        if not several:
            maximize, name = validation.named_objective(maximize, name)
            minimize, name = validation.named_objective(minimize, name)
            given = maximize, minimize
        words = {
            "variables": variables,
            "outputs": outputs,
            "candidates": candidates,
            "blackbox": blackbox,
            "maximize": given[0],
            "minimize": given[1],
            "subject_to": subject_to,
            "inputs": inputs,
            "noise": noise,
            "ranges": ranges,
            "constants": constants,
            "tolerance": tolerance,
            "name": name,
            "unit": unit,
            "models": models,
            "unknowns": unknowns,
            "equations": equations,
        }
        self._set(_words={word: validation.kept(value) for word, value in words.items()})
        mixtures = self._state_variables(variables, candidates)
        self._state_outputs(outputs, constants, blackbox, unknowns)
        stated_noise = validation.read_per_name(noise, self.outputs, "noise", "output")
        self._set(
            _inputs=validation.read_active(inputs, self._x, self._y),
            noise=stated_noise,
            stated_noise=stated_noise,
            ranges=validation.read_ranges(ranges, self._y),
        )
        if several:
            first, name = several[0], several[0].name
            maximize, minimize = (None, first.given) if first.minimizes else (first.given, None)
        functions = self._state_functions(maximize, minimize, subject_to, tolerance, name, mixtures)
        further = self._state_goals(several, unit)
        index = self._x, {**self._y, **{name: self.m + place for place, name in enumerate(self.unknowns)}}
        sought = np.concatenate([self.ranges, np.array(list(self.unknowns.values())).reshape(-1, 2)])
        tried = self._points_tried()
        solved = Unknowns.of(self.unknowns, equations, self._scope, index, tried, self.bounds, sought)
        self._set(_solved_for=solved)
        white_box, structure = WhiteBox.tried(
            (*self.functions, *self.objectives[1:]),
            [*functions, *further],
            tried,
            self.bounds,
            self.ranges,
            tuple(place for place, goal in zip((0, *range(self.k, self.k + len(further))), several, strict=True)
                  if goal.minimizes) if several else (0,) * self.minimizes,
            index,
            solved,
        )  # fmt: skip
        if solved is not None:
            solved.warned.add("tried")
        self._set(structure=structure[: self.k], _white_box=white_box.of_first(self.k), _whole=(white_box, structure))
        models = validation.read_models(outputs, models)
        self._set(models=None if models is None else self.modelled(models))

    def modelled(self, given: Any) -> Models:
        """Read models of outputs: `{output: formula or function of x}`, or one function of all."""
        scope = replace(self._scope, unknowns=())
        return Models.of(given, self.variables, scope, (self._x, self._y), self._points_tried(), self.bounds)

    @property
    def _scope(self) -> Scope:
        """The names that formulas may use."""
        choices, unknowns = choices_of(self.variables), tuple(self.unknowns)
        return Scope(tuple(self.variables), self.outputs, self.constants, choices, unknowns)

    def _set(self, **fields: Any) -> None:
        """Set fields while the problem is being stated; afterwards it does not change."""
        self.__dict__.update(fields)

    def _state_variables(self, variables: Any, candidates: Any) -> dict[str, str]:
        """Read the variables, and return the equalities of mixtures among them."""
        mixtures: dict[str, str] = {}
        if candidates is None:
            variables, mixtures = validation.read_mixtures(variables)
            read, table = validation.read_variables(variables), None
        else:
            read, table = validation.read_candidates(variables, candidates)
        box = Box.of(read.values())
        if table is not None and any(each.is_stepped and not each.is_choice for each in read.values()):
            raise StatementError("The candidates list all points that can be set: leave out the step of variables.")
        self._set(
            variables=read,
            bounds=box.bounds,
            candidates=None if table is None else Listing(table, box.to_unit(table)),
            box=box,
            _x=named_places(read),
            _readers={name: each.read for name, each in read.items() if not each.is_plain},
        )
        if table is not None:
            self._words["candidates"] = self.candidates
            if any(each.is_choice for each in read.values()):
                self._words["variables"] = read
            elif variables is None:
                self._words["variables"] = list(read)
        return mixtures

    def _state_space(self, rows: dict[str, Any]) -> None:
        """Choose the coordinates of the unit cube: the variables that no linear equality determines."""
        found = equalities.solved(rows, self.variables, self._kept)
        names = list(self.variables)
        free = range(len(names)) if found is None else found.free.tolist()
        axes = {names[place]: self.variables[names[place]] for place in free}
        active = self._inputs
        if found is not None:
            through = self._inputs[:, found.places] @ (found.matrix != 0)
            active = self._inputs[:, found.free] | through
        self._set(
            axes=axes,
            d=len(axes),
            active=active,
            grid=Grid.of(list(axes.values())) if self.candidates is None else None,
            _solved=found,
            _axes_box=Box.of(axes.values()),
        )

    def _state_outputs(self, outputs: Any, constants: Any, blackbox: Any, unknowns: Any) -> None:
        outputs = validation.counted(outputs)
        names, units = validation.read_outputs(outputs, self.variables)
        lods, resolutions = validation.read_readings(outputs)
        self._set(
            outputs=names,
            units=units,
            lods=lods,
            resolutions=resolutions,
            m=len(names),
            constants=validation.read_constants(constants, [*self.variables, *names]),
            blackbox=validation.read_blackbox(blackbox, self.variables),
            _y={name: place for place, name in enumerate(names)},
            unknowns=validation.read_sought(unknowns, [*self.variables, *names, *(constants or ())]),
        )

    def _state_functions(
        self, maximize: Any, minimize: Any, subject_to: Any, tolerance: Any, name: Any, mixtures: dict[str, str]
    ) -> list[Function]:
        """Read the objective and the constraints, and return them as functions."""
        if maximize is not None and minimize is not None:
            raise StatementError("The objective is given twice: leave out maximize or minimize.")
        if maximize is None and minimize is None and not subject_to:
            raise StatementError("There is nothing to decide by: give maximize=, minimize= or subject_to=.")
        scope = self._scope
        own, function = validation.read_objective(maximize if minimize is None else minimize, scope)
        objective = validation.read_name(name, own, [*self.variables, *self.outputs, *self.constants])
        groups = {
            **validation.read_constraints(mixtures or None, scope),
            **validation.read_constraints(subject_to, scope),
        }
        solve = self.candidates is None
        groups, rows, texts = equalities.sorted_out(groups, self.variables, tolerance, solve=solve)
        self._state_space(rows)
        if self._solved is not None:
            bounds = equalities.implied_bounds(self._solved, list(self.variables))
            groups |= {text.replace("`", ""): [(text.replace("`", ""), Formula(text, scope, 0))] for text in bounds}
        tolerance = _without(tolerance, groups, texts)
        parts = [part for group in groups.values() for part in group]
        names = (objective, *(name for name, _ in parts))
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise StatementError(f"Two functions are called '{twice}': give each a name of its own.")
        self._set(
            minimizes=minimize is not None,
            objective=objective,
            constraints=names[1:],
            functions=names,
            _own_names=(own, *names[1:]),
            n=len(parts),
            k=len(names),
            tolerance=validation.read_tolerance(tolerance, groups),
            held=texts,
            _nearly=tuple(
                1 + place
                for place, (_, part) in enumerate(parts)
                if isinstance(part, Formula) and part.is_equality and part.part == 1
            ),
        )
        return [function, *(part for _, part in parts)]

    def _state_goals(self, several: tuple[Goal, ...], unit: Any) -> list[Function]:
        """Read the objectives after the first, and the units of all; return their functions."""
        scope = self._scope
        taken = [*self.variables, *self.outputs, *self.constants]
        further = read_goals(several[1:], scope, taken)
        names = (self.objective, *(goal.name for goal in several[1:]))
        twice = next((name for name in names[1:] if name in self.functions), None)
        if twice is not None:
            raise StatementError(f"Two functions are called '{twice}': give each a name of its own.")
        units = read_units(unit, names)
        self._set(objectives=names, goals=several, goal_units=units, unit=units[0], _further=tuple(further))
        return [function for _, function in further]

    def _points_tried(self) -> Float64[ndarray, "b v"]:
        """Return points of the box, or candidates, some of them repeatedly if there are few."""
        stream = Stream(0).at("points tried")
        if self.candidates is None:
            U = np.clip(stream.sobol(POINTS_TRIED, self.d), TRIED_MARGIN, 1 - TRIED_MARGIN)
            return self.from_unit(U if self._solved is None else self._solved.inside(U, stream))
        return self.candidates.X[(stream.uniform(POINTS_TRIED) * len(self.candidates)).astype(int)]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A problem does not change: problem.revised({name}=...) makes another one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A problem does not change.")

    # ------------------------------------------------------------------------------------------------- other problems

    @cached_property
    def side_by_side(self) -> "Problem":
        """The problem with its further objectives as its last functions: better if larger, and without a limit.

        Bounds of all objectives come from it. What decides about feasibility uses the problem itself.
        """
        if not self.has_front:
            return self
        white_box, structure = self._whole
        made = Problem.__new__(Problem)
        made._set(**self.__dict__)
        further = self.objectives[1:]
        made._set(
            functions=self.functions + further,
            constraints=self.constraints + further,
            tolerance=self.tolerance + (math.inf,) * len(further),
            structure=structure,
            n=self.n + len(further),
            k=self.k + len(further),
            _white_box=white_box,
        )
        return made

    @property
    def is_exact(self) -> bool:
        """Whether no output has noise."""
        return bool(self.exact.all())

    @property
    def exact(self) -> Bool[ndarray, "m"]:
        """Which outputs have no noise."""
        return np.array([noise == 0 for noise in self.noise])

    @property
    def exact_by_repetition(self) -> tuple[str, ...]:
        """Names of the outputs that were found to have no noise, although that was not stated."""
        rows = zip(self.outputs, self.stated_noise, self.noise, strict=True)
        return tuple(name for name, stated, noise in rows if stated is None and noise == 0)

    def found_exact(self, outputs: Collection[str]) -> "Problem":
        """Return the problem with outputs that were found to have no noise; what was stated stays (`stated_noise`)."""
        stated = zip(self.outputs, self.stated_noise, strict=True)
        noise = (0.0 if each is None and name in outputs else each for name, each in stated)
        made = Problem.__new__(Problem)
        made._set(**{name: each for name, each in self.__dict__.items() if name != "side_by_side"})
        made._set(noise=tuple(noise))
        return made

    def with_limits(self, values: Mapping[str, float]) -> "Problem":
        """Return the problem with other limits: numbers by the names of constraints in `movable_limits`."""
        movable = self.movable_limits()
        for name in values:
            if name not in movable:
                raise UnknownName(f"'{name}' has no limit that is a number.{did_you_mean(name, movable)}", name)
        return self.revised(subject_to=moved_limits(self._words["subject_to"], self._formulas(), values))

    def sliced(self, given: Mapping[str, Any]) -> "Problem":
        """Return the problem on a slice: proposals and recommendations have the given values, exactly.

        A variable that follows from the others becomes a coordinate if its value is given, and another one follows.

        Args:
            given: Values by the names of variables; a pair of numbers is a range.

        Raises:
            StatementError: When a value cannot be set, or no settings have them all.
        """
        ends = slices.ends_of(given, self.variables)
        whole = self if all(name in self.axes for name in ends) else self._with_coordinates(tuple(ends))
        made = Problem.__new__(Problem)
        made._set(**{name: each for name, each in whole.__dict__.items() if name not in ("side_by_side", "choosable")})
        if ends:
            made._set(**slicing.cut(whole, ends))
        return made

    def _with_coordinates(self, names: tuple[str, ...]) -> "Problem":
        """Return the same problem with other variables as coordinates, these among them if possible."""
        made = Problem.__new__(Problem)
        made._set(_kept=names)
        made.__init__(**self._words)  # type: ignore[misc]
        return made.found_exact(self.exact_by_repetition)

    @property
    def is_turned(self) -> bool:
        """Whether its coordinates are others than those of the whole problem, because of what is given."""
        return bool(self._kept)

    def word(self, name: str) -> Any:
        """Return an argument with which the problem was stated, for instance "subject_to"."""
        return self._words[name]

    def revised(self, **changes: Any) -> "Problem":
        """Return the problem with some arguments replaced; `maximize` replaces `minimize` and vice versa.

        Outputs that were found to be exact stay so, unless their noise is stated now.
        """
        for word in changes:
            if word not in self._words:
                raise UnknownName(f"A problem has no word '{word}'.{did_you_mean(word, self._words)}", word)
        same = dict(self._words)
        if changes.keys() & {"maximize", "minimize"}:
            same |= {"maximize": None, "minimize": None}
        if any(isinstance(changes.get(word), Mapping) for word in ("maximize", "minimize")):  # it brings its name
            same["name"] = None
        made = Problem(**(same | changes)).found_exact(self.exact_by_repetition)
        return made.sliced(self.given) if self.given else made

    def folded(self) -> "Problem":
        """Return the problem with g moved into the black box, whose outputs are then the values of the functions.

        White functions stay white, since they are known exactly. The objective's output is in the paper's form.
        """
        if self.has_front:
            raise StatementError("A problem of several objectives cannot be folded: state one of them.")
        kept = [place for place in range(self.k) if not self._white_box.is_white[place]] or [0]
        taken = set(self.variables) | set(self.constants)
        names = {i: self.functions[i] + (" (value)" if self.functions[i] in taken else "") for i in kept}
        objective, *constraints = folded_functions(self._white_box, names, self.m)
        return Problem(
            self.variables,
            list(names.values()),
            candidates=self.candidates,
            blackbox=None if self.blackbox is None else folded_black_box(self, kept),
            subject_to={**dict(zip(self.constraints, constraints, strict=True)), **self.held} or None,
            noise=0 if self.is_exact else None,
            tolerance={
                name: each for name, each in zip(self.constraints, self.tolerance, strict=True) if each is not None
            },
            **{"minimize" if self.minimizes else "maximize": objective},
        )

    def statement(self) -> dict[str, Any]:
        """Describe the problem for storage as JSON: formulas as text, functions as source and hash."""
        functions = [
            described(name, call) for name, call in zip(self._own_names, self._white_box.functions, strict=True)
        ]
        own = plain(self.blackbox)
        ends = [[each if math.isfinite(each) else None for each in row] for row in self.ranges.tolist()]
        return {
            "variables": {name: each.stated() for name, each in self.variables.items()},
            **({"candidates": [len(self.candidates), self.candidates.digest]} if self.candidates is not None else {}),
            "outputs": list(self.outputs),
            "blackbox": own and described(validation.own_name(own, "blackbox"), own, with_values=False),
            "sense": "minimize" if self.minimizes else "maximize",
            "objective": functions[0],
            "subject_to": functions[1:],
            "inputs": {
                name: [each for each, seen in zip(self.variables, row, strict=True) if seen]
                for name, row in zip(self.outputs, self._inputs.tolist(), strict=True)
            },
            "noise": dict(zip(self.outputs, self.stated_noise, strict=True)),
            "ranges": dict(zip(self.outputs, ends, strict=True)),
            "constants": {
                name: list(each) if isinstance(each, tuple) else each for name, each in self.constants.items()
            },
            "tolerance": dict(zip(self.constraints, self.tolerance, strict=True)),
            **({"called": self.objective} if self.objective != self._own_names[0] else {}),
            **({"further": self._stored_goals()} if self.has_front else {}),
            **({"unit": self.unit} if self.unit else {}),
            **({"units": dict(self.units)} if self.units else {}),
            **({"lods": dict(self.lods)} if self.lods else {}),
            **({"resolutions": dict(self.resolutions)} if self.resolutions else {}),
            **({"equalities": dict(self.held)} if self.held else {}),
            **({"models": self.models.statement()} if self.models is not None else {}),
            **self._stored_unknowns(),
        }

    def _stored_unknowns(self) -> dict[str, Any]:
        """Describe the unknowns and their equations."""
        if self._solved_for is None:
            return {}
        functions = self._solved_for.functions
        equations = [described(f"equation {place}", each) for place, each in enumerate(functions, 1)]
        return {"unknowns": {name: list(ends) for name, ends in self.unknowns.items()}, "equations": equations}

    def _stored_goals(self) -> list[dict[str, Any]]:
        """Describe the objectives after the first."""
        rows = zip(self.goals[1:], self._further, self.goal_units[1:], strict=True)
        return [stored_goal(goal, own, function, unit) for goal, (own, function), unit in rows]

    def _repr_html_(self) -> str:
        from pied.problem.shown import tables

        spans = {name: each.span for name, each in self.variables.items()}
        return tables(self.statement(), self.objective, spans)

    def __repr__(self) -> str:
        box = ", ".join(f"{name} in {each.span}" for name, each in self.variables.items())
        has_objective = self.minimizes or self._words["maximize"] is not None
        sense = ("minimize" if self.minimizes else "maximize") if has_objective else "find"
        limits = f", subject to {', '.join(self.constraints)}" if self.constraints else ""
        box += f" ({len(self.candidates)} candidates)" if self.candidates is not None else ""
        programs = self._white_box.programs
        ways = "".join(f"; {name} {way}" for name, way in self.ways.items() if name not in programs)
        sense = f"{sense} {self.objective}" + "".join(f", {goal.sense} {goal.name}" for goal in self.goals[1:])
        return f"Problem({sense}{limits}; {box}; outputs {', '.join(self.outputs)}{ways})"


def _without(tolerance: Any, groups: Mapping[str, Any], solved: Mapping[str, str]) -> Any:
    """Return tolerances without those of equalities: their room is part of the functions, or they hold exactly."""
    if not isinstance(tolerance, Mapping):
        return tolerance
    own = {name for name, group in groups.items() if isinstance(group[0][1], Formula) and group[0][1].is_equality}
    return {name: each for name, each in tolerance.items() if name not in own and name not in solved}
