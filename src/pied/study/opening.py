"""Open the record of a new or stored study; refuse another seed, solver, or other variables and outputs."""

import json
import logging
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

from pied.errors import PiedError, SettingError, StatementError, StoreError, StudyMismatch
from pied.problem import Listing, Problem, listed, restored_goals
from pied.records import About, Event, Memory, Question, Record, key, name_now, take_in, to_plain
from pied.rng import fresh_seed
from pied.solvers import check_name, make, registry
from pied.solvers.base import Solver
from pied.solvers.initial import design_size

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


def check_settings(
    problem: Problem,
    patience: int | None,
    stop_at_gap: float | None,
    stop_at_growth: float | None,
    lease: float | None,
) -> None:
    """Refuse numbers that no study, or not this one, can have."""
    if stop_at_gap is not None and problem.has_front:
        raise SettingError("a gap is that of one objective: stop at the growth of the front, stop_at_growth=0.01")
    if problem.has_front and problem.observed:
        raise SettingError(
            f"{listed(problem.observed)}: measured variables need one objective, because what is said holds for their "
            "present values; ask a study of one objective with limits for the others"
        )
    if stop_at_growth is not None and not problem.has_front:
        raise SettingError("the growth is that of a front of several objectives: stop at the gap, stop_at_gap=")
    if stop_at_growth is not None and not stop_at_growth >= 0:
        raise SettingError(f"stop_at_growth is a share of the front's hypervolume, 0 or more, got {stop_at_growth}")
    if patience is not None and patience < 1:
        raise SettingError(f"patience counts tests from 1, or is None for never, got {patience}")
    if stop_at_gap is not None and not stop_at_gap >= 0:
        raise SettingError(f"stop_at_gap is a gap in units of the objective, 0 or more, got {stop_at_gap}")
    if lease is not None and not lease > 0:
        raise SettingError(f"lease is a number of seconds above 0, got {lease}")


def opened(
    problem: Problem,
    *,
    name: str | None,
    store: Any,
    read_only: bool,
    solver: Solver | None,
    seed: int | None,
    initial: int | None,
) -> tuple[Record, Solver | Callable[[], Solver], int]:
    """Return the record of a study, its solver or how to restore it, and the number of its question.

    A stored study keeps its seed, solver and initial design; those that are given must agree with it.
    """
    if solver is not None and not solver.lists and (problem.candidates is not None or problem.grid is not None):
        what = "a list of candidates" if problem.candidates is not None else "settings with a step"
        raise SettingError(
            f"solver '{solver.name}' needs whole ranges and cannot choose from {what}: take 'cuqb', another solver by "
            "bounds or improvement, or 'random'"
        )
    if solver is not None and not solver.fronts and problem.has_front:
        raise SettingError(
            f"solver '{solver.name}' seeks one best point, and this problem has {len(problem.objectives)} objectives: "
            "take 'cuqb', 'random' or 'sobol', or state one objective and limits for the others"
        )
    most = math.inf if problem.listing is None else len(problem.listing)
    initial = initial if initial is None else int(min(initial, most))
    statement = problem.statement()

    def made(chosen: Solver) -> About:
        least = 2 if chosen.needs_design else 0
        if initial is not None and initial < least:
            why = ": only a stated belief, Believer(priors=...), or careful trials need none" if least else ""
            raise SettingError(f"the initial design needs at least {least} points, got {initial}{why}")
        usual = design_size(problem.chosen) if chosen.begins_anywhere else 0
        first = int(min(usual, most)) if initial is None else initial
        return About(name or "", statement, fresh_seed() if seed is None else int(seed), solver_to_data(chosen), first)

    if store is None:
        if read_only:
            raise SettingError("a study opened for reading needs a store: give store=")
        chosen = solver or make("cuqb")
        return Memory(made(chosen)), chosen, 1
    if not name:
        raise SettingError("a study in a store needs a name, by which it is found again: give name=")
    from pied.records.sql import Store

    if isinstance(store, Store):
        return _kept(store, name, made, statement, solver=solver, seed=seed, initial=initial)
    place = Store.connect(store, read_only=read_only)
    try:
        return _kept(place, name, made, statement, solver=solver, seed=seed, initial=initial)
    except BaseException:
        place.close()
        raise


def _kept(
    place: Any,
    name: str,
    made: Callable[[Solver], About],
    statement: Mapping[str, Any],
    *,
    solver: Solver | None,
    seed: int | None,
    initial: int | None,
) -> tuple[Record, Solver | Callable[[], Solver], int]:
    """Return the same for a study in a store."""
    record = place.record(name) if place.is_read_only else place.find(name)
    if record is None:
        record = place.create(made(solver or make("cuqb")))
    about = record.about
    read_only = place.is_read_only or bool(record.damage)
    if record.damage:
        logger.warning("%s", record.damage)
    try:
        check_same(name, about.statement, statement)
    except (AttributeError, KeyError, TypeError) as error:
        raise StoreError(f"the store is damaged: the question of study '{name}' cannot be read") from error
    if seed is not None and int(seed) != about.seed:
        raise SettingError(f"study '{name}' has the seed {about.seed}, not {seed}: leave seed= out to continue it")
    if initial is not None and initial != about.initial:
        raise SettingError(f"study '{name}' has an initial design of {about.initial} points, not {initial}")
    kept = _kept_solver(name, about.solver, solver)
    if not read_only:
        take_in(record)
    return record, kept, _revision(record, statement, read_only)


def _revision(record: Record, statement: Mapping[str, Any], read_only: bool) -> int:
    """Return the number of the question, and record a new one."""
    about = record.about
    if key(about.statement) == key(statement):
        before, now = about.statement.get("blackbox"), statement.get("blackbox")
        if before and now and before.get("hash") != now.get("hash"):
            logger.warning("study '%s': the text of the black box has changed; the data are kept", about.name)
        return about.revision
    if not read_only:
        number = record.revise(statement)
        logger.info("study '%s': question %d on the same data", about.name, number)
        return number
    for question in reversed(record.questions()):
        if key(question.statement) == key(statement):
            return question.number
    return 0


def has_code(words: Mapping[str, Any]) -> bool:
    """Return whether arguments of a problem define g by Python functions, which cannot be compared."""
    given = [words.get(word) for word in ("maximize", "minimize", "subject_to", "models")]
    goals = [goal for each in given for goal in (each.values() if isinstance(each, Mapping) else [each])]
    return any(callable(each) for each in goals)


def check_same(name: str, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse a problem whose variables or outputs differ from the stored ones, and show the difference.

    A unit may be added or left out, but not changed.
    """
    lines = []
    before, now = kept.get("variables", {}), given["variables"]
    for variable in [*before, *(each for each in now if each not in before)]:
        old, new = before.get(variable), now.get(variable)
        if old and new and not (old["unit"] and new["unit"]):
            old, new = ({word: each[word] for word in each if word != "unit"} for each in (old, new))
        if old != new:
            lines.append(f"variable '{variable}': {variable_text(old)} is stored, {variable_text(new)} is given")
    if not lines and list(before) != list(now):
        lines.append(f"variables: the order {list(before)} is stored, {list(now)} is given")
    if list(kept.get("outputs", [])) != list(given["outputs"]):
        lines.append(f"outputs: {list(kept.get('outputs', []))} is stored, {list(given['outputs'])} is given")
    own, others = (each.get("candidates") for each in (kept, given))
    if own != others:
        stored, now_given = (f"a list of {each[0]} candidates" if each else "no list" for each in (own, others))
        lines.append(f"another list: {stored} is stored, {now_given} is given")
    if lines:
        raise StudyMismatch(
            f"study '{name}' has data of other variables, candidates or outputs; {'; '.join(lines)}. If the same "
            "things are meant, 'pied revise' (study.revise) keeps the data; else give the new one another name."
        )


def variable_text(stated: Mapping[str, Any] | None) -> str:
    """Return what is stored of a variable in words: range, unit, scale and step."""
    if stated is None:
        return "nothing"
    if stated.get("choices"):
        return f"one of {', '.join(map(str, stated['choices']))}"
    unit = f" {stated['unit']}" if stated.get("unit") else ""
    step = f", step {stated['step']:.15g}" if stated.get("step") else ""
    step += f", round {stated['round']!r}" if stated.get("round") is not None else ""
    step += ", whole numbers" if stated.get("whole") else ""
    step += f", one of {', '.join(f'{each:.15g}' for each in stated['only'])}" if stated.get("only") else ""
    return f"{stated['lo']:.15g} to {stated['hi']:.15g}{unit}{' (log)' if stated['log'] else ''}{step}"


# ------------------------------------------------------------------------------------------------------------ solvers


def solver_to_data(solver: Solver) -> dict[str, Any]:
    """Return a solver's name and settings as plain data."""
    return {"name": solver.name, "settings": _settings_to_data(solver) if is_dataclass(solver) else {}}


def _settings_to_data(settings: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"is": type(settings).__name__}
    for field in fields(settings):
        data[field.name] = _value_to_data(getattr(settings, field.name))
    return json.loads(json.dumps(data, default=repr))


def _value_to_data(value: Any) -> Any:
    if isinstance(value, tuple) and any(is_dataclass(each) for each in value):
        return [_value_to_data(each) for each in value]
    return _settings_to_data(value) if is_dataclass(value) else to_plain(value)


def _kept_solver(name: str, kept: Any, given: Solver | None) -> Solver | Callable[[], Solver]:
    """Return the given solver, which must be the stored one, or else a function that restores the stored one.

    A name that is not known is refused at once. The rest waits, because a `tell` needs no solver.
    """
    if given is None:
        check_name(_read(name, kept, lambda data: str(data["name"])))
        return partial(_read, name, kept, solver_from_data)
    return _read(name, kept, partial(_same_solver, name, given))


def _read(name: str, kept: Any, reading: Callable[[Any], Answer]) -> Answer:
    """Read the stored solver of a study; what was damaged or forged is refused with a sentence."""
    try:
        return reading(kept)
    except PiedError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"the store is damaged: the solver of study '{name}' cannot be read ({error})") from error


def _same_solver(name: str, given: Solver, kept: Mapping[str, Any]) -> Solver:
    """Return the given solver; raise when the stored one is another."""
    new = solver_to_data(given)
    if new["name"] != kept["name"]:
        raise SettingError(f"study '{name}' is solved by '{kept['name']}', not by '{new['name']}': leave solver= out")
    differences = _differences(kept.get("settings", {}), new["settings"])
    if differences:
        raise SettingError(
            f"study '{name}' is solved by '{kept['name']}' with other settings; {'; '.join(differences)}: "
            "leave solver= and settings= out to continue it"
        )
    return given


def _differences(kept: Mapping[str, Any], given: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the settings that differ; those that only one side has come from another version and are ignored."""
    found = []
    for name in kept:
        if name not in given or kept[name] == given[name]:
            continue
        if isinstance(kept[name], dict) and isinstance(given[name], dict):
            found += _differences(kept[name], given[name], f"{path}{name}.")
        else:
            found.append(f"{path}{name} is {kept[name]!r}, {given[name]!r} is given")
    return found


def solver_from_data(data: Mapping[str, Any]) -> Solver:
    """Create a solver from its name and settings; only classes named by its own fields are created.

    Settings that are newer than the record take the defaults of that solver, of a method as it was published those of
    that method.
    """
    solver, settings = make(str(data.get("name"))), data.get("settings")
    if not settings:
        return solver
    restored, name = _settings_from_data(type(solver), settings, solver), f"{solver.name}-paper"
    is_usual = not _differences(settings, solver_to_data(solver)["settings"])
    published = None if is_usual or name not in registry else make(name)
    if published is None or _differences(settings, solver_to_data(published)["settings"]):
        return restored
    return published


def _settings_from_data(kind: type, data: Mapping[str, Any], usual: Any) -> Any:
    """Create settings from plain data; what is missing is taken from usual ones of the same kind, if there are some."""
    hints, given = typing.get_type_hints(kind), {}
    if type(usual) is kind and is_dataclass(usual):
        given = {each.name: getattr(usual, each.name) for each in fields(usual) if each.init}
    for name, value in data.items():
        if name == "is":
            continue
        if name not in hints:
            logger.warning("the setting '%s' of %s is no longer known and is ignored", name, kind.__name__)
            continue
        hint = hints[name]
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        inner: list[Any] = [each for each in kinds if is_dataclass(each)]
        given[name] = _value_from_data(value, inner, given.get(name))
    return kind(**given)


def _value_from_data(value: Any, inner: Sequence[Any], usual: Any) -> Any:
    """Create one setting: settings of a kind that the field may have, a list of values, or a plain value."""
    if isinstance(value, list):
        return tuple(_value_from_data(each, inner, None) for each in value)
    if not isinstance(value, dict) or not inner:
        return value
    return _settings_from_data(
        next((each for each in inner if each.__name__ == value.get("is")), inner[0]), value, usual
    )


# -------------------------------------------------------------------------------------------------- earlier questions

_WORDS = ("lo", "hi", "log", "unit", "step", "round", "whole", "only", "choices", "properties")
"""What is stored of a variable."""


def restored_question(
    problem: Problem, questions: Sequence[Question], events: Sequence[Event], current: int
) -> tuple[Problem, int, dict[str, str]] | None:
    """Return the question before the current one, its number, and what its variables and outputs are called now.

    It is restored from formulas, never from code; None when it cannot be, or when there is none.
    """
    earlier = [question for question in questions if question.number != current]
    old = stated(earlier[-1].statement, problem.candidates) if earlier else None
    if old is None:
        return None
    names = {name: name_now(events, name, earlier[-1].asked) for name in (*old.variables, *old.outputs)}
    exact = [name for name in old.outputs if names[name] in problem.exact_by_repetition]
    return old.found_exact(exact), earlier[-1].number, names


def stated(statement: Mapping[str, Any], candidates: Listing | None = None) -> Problem | None:
    """Restore a stored question if it consists of formulas only; stored code is never run.

    Args:
        statement: The stored statement.
        candidates: The study's list of candidates; a statement stores only its fingerprint.
    """
    try:
        return None if "candidates" in statement and candidates is None else _stated(statement, candidates)
    except (StatementError, AttributeError, KeyError, TypeError, ValueError) as error:
        logger.warning("an earlier question cannot be restored: %s", error)
        return None


def _stated(statement: Mapping[str, Any], candidates: Listing | None) -> Problem | None:
    functions = [statement["objective"], *statement["subject_to"]]
    several = restored_goals(statement) if "further" in statement else {}
    if several is None:
        return None
    if any("formula" not in each and each.get("name") != "any feasible point" for each in functions):
        return None
    limits: dict[str, str] = {}
    tolerance: dict[str, float] = {}
    chains = {each["formula"] for each in functions[1:] if each["part"]}
    for each in functions[1:]:
        suffix = f" ({each['part'] + 1})" if each["formula"] in chains else ""
        name = each["name"].removesuffix(suffix)
        limits[name] = each["formula"]
        if statement["tolerance"].get(each["name"]) is not None:
            tolerance[name] = statement["tolerance"][each["name"]]
        elif each.get("room"):
            tolerance[name] = each["room"]
    limits |= statement.get("equalities", {})
    objective = {statement["sense"]: functions[0]["formula"]} if "formula" in functions[0] else {}
    return Problem(
        {name: {word: each[word] for word in _WORDS if word in each} for name, each in statement["variables"].items()},
        {name: _described(statement, name) for name in statement["outputs"]},
        candidates=candidates,
        subject_to=limits or None,
        inputs=statement["inputs"],
        noise=statement["noise"],
        ranges={name: tuple(ends) for name, ends in statement["ranges"].items()},
        constants=statement["constants"] or None,
        tolerance=tolerance or None,
        models={each["name"]: each["formula"] for each in statement.get("models", ()) if "formula" in each} or None,
        unknowns=statement.get("unknowns"),
        equations=[each["formula"] for each in statement["equations"]] if "equations" in statement else None,
        **(several or {"name": statement.get("called"), "unit": statement.get("unit", ""), **objective}),
    )


def _described(statement: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what is said of an output besides its range and noise."""
    words = {"unit": statement.get("units", {}), "lod": statement.get("lods", {})}
    words |= {"resolution": statement.get("resolutions", {})}
    return {word: given[name] for word, given in words.items() if name in given}
