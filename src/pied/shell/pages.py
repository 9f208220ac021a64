"""Problems, trials and results as text; nothing is printed here."""

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pied.address import masked
from pied.measured import is_known, shown
from pied.problem import Problem, Variable, groups
from pied.records import Dataset, State, Trial, feasible
from pied.study import Result, Words, figure, short, titled

FEW = 6
"""Number of names that are listed before the list is shortened."""
DIGITS = 5
"""Significant digits of numbers in the table of trials."""
STORE = "PIED_STORE"
"""Environment variable with the address of the store."""


def statement_lines(problem: Problem, *, sense: str | None = None, why: bool = True) -> list[str]:
    """Return objective, constraints, variables and outputs, and on demand the structure that was found."""
    stated = problem.statement()
    kinds = [f"   [{_structure(problem, place)}]" if why else "" for place in range(problem.k)]
    called = f"{problem.objective} = " if "called" in stated else ""
    end = f"   in {problem.unit}" if problem.unit else ""
    lines = [f"{sense or sense_of(problem)} {called}{_told(stated['objective'])}{end}{kinds[0]}"]
    for goal in stated.get("further", ()):
        unit = f"   in {goal['unit']}" if goal.get("unit") else ""
        lines.append(f"{goal['sense']} {goal['called']} = {_told(goal)}{unit}")
    for limit, kind in zip(stated["subject_to"], kinds[1:], strict=True):
        name, text = limit["name"], _told(limit)
        if limit.get("room"):  # an equality: two limits, told as one
            if limit["part"]:
                continue
            name, text = name.removesuffix(" (1)"), f"{text}, within {limit['room']:g}"
        lines.append(f"  subject to {text if text == name else f'{name}: {text}'}{kind}")
    if problem.held:
        lines += ["", "equalities (kept exactly by every proposal)"]
        lines += [f"  {name}: {plain_formula(text)}" for name, text in problem.held.items()]
    listed = "" if problem.candidates is None else f" ({len(problem.candidates)} candidates)"
    lines += ["", f"variables{listed}", *(f"  {line}" for line in variable_lines(problem))]
    lines += ["outputs (and what they depend on)", *(f"  {line}" for line in output_lines(problem))]
    if problem.unknowns:
        lines.append("unknowns (solved for at every point)")
        lines += [f"  {name} in [{lo:g}, {hi:g}]" for name, (lo, hi) in problem.unknowns.items()]
        lines += [f"  from {plain_formula(each.get('formula', each['name']))}" for each in stated["equations"]]
    if None in problem.noise:
        saved = "evaluations" if problem.blackbox is None else "an evaluation"
        lines.append(f"  (say noise = 0 where the same settings always give the same value: it saves {saved})")
    return lines


def sizes(problem: Problem) -> str:
    """Return how many variables, outputs and constraints there are."""
    counts = [(len(problem.variables), "variable"), (problem.m, "output"), (problem.n, "constraint")]
    said = [f"{count} {word}{'s' * (count != 1)}" for count, word in counts]
    held = len(problem.held)
    return ", ".join([*said, *([f"{held} equalit{'ies' if held > 1 else 'y'}"] if held else [])])


def sense_of(problem: Problem) -> str:
    """Return the goal: maximize, minimize, or find, if there is no objective."""
    if problem.objective == "any feasible point":
        return "find"
    return "minimize" if problem.minimizes else "maximize"


def structure_of(problem: Problem) -> dict[str, dict[str, Any]]:
    """Return how each function uses the outputs, as data."""
    return {
        name: {"kind": each.kind, "outputs": [problem.outputs[j] for j in each.outputs]}
        for name, each in zip(problem.functions, problem.structure, strict=True)
    }


def _structure(problem: Problem, place: int) -> str:
    found = problem.structure[place]
    return found.kind if found.kind == "white" else f"{found.kind} in {', '.join(outputs_of(problem, found.outputs))}"


def outputs_of(problem: Problem, places: Sequence[int]) -> list[str]:
    """Return the names of outputs as text; vectors by their own name, long lists shortened."""
    left, names = set(places), []
    for name, parts in groups(problem.outputs).items():
        if left >= set(parts):
            left -= set(parts)
            names.append(name)
    names += [name for place, name in enumerate(problem.outputs) if place in left]
    return names if len(names) <= FEW else [*names[:FEW], "..."]


def variable_lines(problem: Problem) -> list[str]:
    """Return a line for each variable: its kind and box, unit and scale, and whether an equality determines it."""
    return [
        f"{name} {_kind(each)}{'' if name in problem.axes else ', follows from the others'}"
        for name, each in problem.variables.items()
    ]


def _kind(variable: Variable) -> str:
    unit, scale = f" {variable.unit}" if variable.unit else "", ", log scale" if variable.log else ""
    if variable.is_listed:
        known = f"; known of each: {', '.join(variable.properties)}" if variable.properties else ""
        return f"one of {variable.span[1:-1]}{unit}{scale}{known}"
    return f"in [{variable.lo:g}, {variable.hi:g}]{unit}{scale}{_step(variable)}"


def _step(variable: Variable) -> str:
    """Return which values of a variable can be set, if not all."""
    if variable.whole:
        return ", whole numbers"
    if not variable.is_stepped:
        return ""
    values = variable.levels()
    return f", {len(values)} values: {written(values[0])}, {written(values[1])} .. {written(values[-1])}"


def output_lines(problem: Problem) -> list[str]:
    """Return a line for each output, or for each vector of like ones."""
    stated, lines, seen = problem.statement(), [], set()
    first = {problem.outputs[parts[0]]: (name, parts) for name, parts in groups(problem.outputs).items()}
    for place, output in enumerate(problem.outputs):
        if place in seen:
            continue
        name, parts = output, [place]
        told = _output(stated, output)
        if output in first and all(_output(stated, problem.outputs[part]) == told for part in first[output][1]):
            name, parts = first[output]
            name = f"{name}[1..{len(parts)}]"
        seen |= set(parts)
        lines.append(f"{name} {told}")
    return lines


def _output(stated: Mapping[str, Any], name: str) -> str:
    lo, hi = stated["ranges"][name]
    noise = stated["noise"][name]
    inside = "" if lo is None and hi is None else f"   within [{_open(lo, '-')}, {_open(hi, '')}]"
    error = "   noise to be learned" if noise is None else "   exact" if noise == 0 else f"   noise {noise:g}"
    own = f"   {stated['units'][name]}" if name in stated.get("units", {}) else ""
    step, lod = (stated.get(word, {}).get(name) for word in ("resolutions", "lods"))
    error += "" if step is None else f"   in steps of {step:g}"
    error += "" if lod is None else f"   n.d. below {lod:g}"
    model = next((each for each in stated.get("models", ()) if each["name"] == name), None)
    follows = "" if model is None else f"   model {plain_formula(model.get('formula', 'as a function'))}"
    return f"({', '.join(stated['inputs'][name])}){own}{inside}{error}{follows}"


def _open(end: float | None, sign: str) -> str:
    return f"{sign}inf" if end is None else f"{end:g}"


def _told(function: Mapping[str, Any]) -> str:
    text = function.get("formula") or function["name"]
    return function["name"] if plain_formula(text) == function["name"] else text


def plain_formula(text: str) -> str:
    """Return a formula without the quotes around names."""
    return text.replace("`", "")


def constant_lines(problem: Problem) -> list[str]:
    """Return a line for each constant."""
    return [
        f"{name} = {value!r}" if isinstance(value, float)
        else f"{name} = {len(value)} numbers from {min(value):g} to {max(value):g}"
        for name, value in problem.constants.items()
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- trials


def point(x: Mapping[str, Any], problem: Problem | None = None) -> str:
    """Return a point on one line, with units when the problem is given."""
    return "  ".join(f"{name} = {setting(value, 6)}{unit(problem, name)}" for name, value in x.items())


def setting(value: Any, digits: int) -> str:
    """Return a setting: labels and whole numbers as they are, others with so many digits."""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def written(value: Any) -> str:
    """Return a setting with the digits with which it is written: 8.7, not 8.699999999999999."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def unit(problem: Problem | None, name: str) -> str:
    """Return a variable's unit with a blank before it."""
    stated = problem.variables[name].unit if problem is not None else ""
    return f" {stated}" if stated else ""


def missing(problem: Problem, trial: Trial) -> list[str]:
    """Return the outputs that were not told yet."""
    return [name for name in problem.outputs if trial.y is None or not is_known(trial.y[name])]


def verdict(problem: Problem, trial: Trial) -> str:
    """Return the objective of a told trial, and the limits it breaks."""
    whole = Dataset.of(problem, [replace(trial, campaign="")]).functions(problem.side_by_side)
    f, values = whole[:, : problem.k], (whole[0, problem.goal_places] * problem.goal_signs).tolist()
    digits = 6 if problem.is_exact else 4
    worth = (
        ""
        if sense_of(problem) == "find"
        else "".join(
            f"{titled(short(name))} {value:.{digits}g}{f' {unit}' if unit else ''}, " if value == value else ""
            for name, value, unit in zip(problem.objectives, values, problem.goal_units, strict=True)
        )
    )
    if bool(feasible(problem, f)[0]):
        return f"{worth}all limits met" if problem.n else worth.rstrip(", ")
    slacks = dict(zip(problem.constraints, f[0, 1:].tolist(), strict=True))
    broken = [name for name, slack in slacks.items() if slack < 0]
    open_ones = [name for name, slack in slacks.items() if math.isnan(slack)]
    if not broken:
        return f"{worth}{', '.join(open_ones)} not decided" if open_ones else f"{worth}all limits met"
    more = f" and {len(broken) - FEW} more limits" if len(broken) > FEW + 1 else ""
    return f"{worth}breaks {', '.join(broken[:FEW] if more else broken)}{more}"


def _unit(problem: Problem) -> str:
    return f" {problem.unit}" if problem.unit else ""


def trial_line(problem: Problem, trial: Trial) -> str:
    """Return a settled trial on one line."""
    again = "" if trial.why.repeats is None else f"   (repeats trial {trial.why.repeats})"
    text = f"{trial.number:>4}  {point(trial.x)}{again}"
    if trial.state is State.FAILED:
        return f"{text}   {trial.failure}"
    return f"{text}   {verdict(problem, trial)}" if trial.state is State.TOLD else text


def trial_lines(problem: Problem, trials: Sequence[Trial], leases: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Return all trials as a table: settings, outputs, what they mean, and who has those that are open."""
    few = outputs_of(problem, range(problem.m))
    names = [name for name in problem.outputs if name in few]
    heads = ["trial", *problem.variables, *names, ""]
    rows = [heads]
    for trial in trials:
        settings = [setting(value, DIGITS) for value in trial.x.values()]
        told = [shown(trial.y[n], DIGITS) if trial.y is not None and is_known(trial.y[n]) else "-" for n in names]
        rows.append([str(trial.number), *settings, *told, _remark(problem, trial, leases.get(trial.number))])
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads) - 1)]
    cells = [[each.rjust(width) for each, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join(["", *cell, row[-1]]).rstrip() for cell, row in zip(cells, rows, strict=True)] if trials else []


def _remark(problem: Problem, trial: Trial, lease: Mapping[str, Any] | None) -> str:
    """Return what became of a trial."""
    old = ("older; " if trial.is_added else "") + f"{trial.groups}; " * bool(trial.groups)
    if trial.state is State.FAILED:
        return trial.failure
    if trial.state is State.WITHDRAWN:
        return f"{old}withdrawn: {trial.reason}"
    if trial.state is State.TOLD:
        return f"{old}{verdict(problem, trial)}"
    left = missing(problem, trial)
    names = outputs_of(problem, [problem.outputs.index(name) for name in left])
    what = f"{', '.join(names)} missing"
    if lease is None:
        return f"{old}{what}"
    if trial.state is State.PARTIAL:
        return f"open ({lease['worker']}, {what})"
    until = f", offered again after {when(lease['until'])}" if lease["until"] else ""
    return f"open ({lease['worker']}, since {when(lease['since'])}{until})"


def why_line(problem: Problem, trial: Trial) -> str:
    """Return what is behind a proposal, beside its explanation; nothing for one of the first points."""
    why, parts = trial.why, []
    ends = list(zip(problem.functions, why.lower, why.upper, strict=False))[1:]
    margins = [f"{short(name)} {figure(low, high - low)} to {figure(high, high - low)}" for name, low, high in ends]
    if margins:
        parts.append(f"Margins of the limits there: {', '.join(margins)}.")
    if why.optimistic is not None:
        top = f"{short(problem.objective)} {problem.user_value(why.optimistic):.6g}{_unit(problem)}"
        parts.append(f"The best that still seems possible: {top}.")
    if why.active:
        parts.append(f"Limits that stop it: {', '.join(why.active)}.")
    if why.rung != "plain":
        parts.append(f"Numerical fallback: {why.rung}.")
    return " ".join([*parts, f"Found in {why.seconds:.1f} s."] if parts else [])


def expected_line(problem: Problem, expected: Mapping[str, tuple[float, float, float]]) -> str:
    """Return what is expected of each output, or of the first few of them: "product 0.65 (0.61 to 0.69)"."""
    words, parts = Words.of(problem), []
    for name, (low, middle, high) in list(expected.items())[:FEW]:
        ends = f"{figure(low, high - low)} to {figure(high, high - low)}"
        parts.append(f"{name} {words.united(figure(middle, high - low), name)} ({ends})")
    return ", ".join([*parts, *(["..."] if len(expected) > FEW else [])])


def result_lines(result: Result, command: Callable[[str, int], str]) -> list[str]:
    """Return a result as lines of text; `command` returns how to repeat, correct or withdraw a trial."""
    return result.told(command).splitlines()


def when(seconds: float | None) -> str:
    """Return a time as text, in local time; empty if there is none."""
    return "" if seconds is None else datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def hint(command: str, file: str, *words: str, store: str | None = None) -> str:
    """Return a command to type; without the store if the environment names it, and never with its password."""
    end = ["--store", shlex.quote(masked(store))] if store and store != os.environ.get(STORE) else []
    return " ".join(["pied", command, shlex.quote(file), *words, *end])


def blanks(problem: Problem, names: Sequence[str]) -> list[str]:
    """Return the NAME=VALUE arguments of a `tell`, to be filled in."""
    places = [problem.outputs.index(name) for name in names]
    return [each if each == "..." else f"{shlex.quote(each)}=..." for each in outputs_of(problem, places)]
