"""Read what people tell: values (doubted outside of their ranges), the point really run, reasons, and known rows."""

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pied.errors import (
    EvaluationError,
    SettingError,
    StatementError,
    StoreError,
    TellError,
    UnknownName,
    did_you_mean,
    ways,
)
from pied.measured import Measured, is_known, says_no_more
from pied.problem import Named, Problem, doubts, ends_of
from pied.records import GROUPS, Row, State, Trial, cleaned_name

logger = logging.getLogger(__name__)

OUTSIDE = 0.05
"""In widths of a variable's range: how far outside of it a point may have been run; a larger distance is a typo."""
ROUNDED = 1e-9
"""In widths of a variable's range: a point this little outside was put there by printing it."""
ROUNDING = 1e-12
"""The same: what a setting differs by after the arithmetic of an equality."""
SAME_POINT = 2e-6
"""Relative to a variable's range: settings that differ by less are the same, since exports have rounded ones."""
SAME_DIGITS = 1e-5
"""Relative to a setting itself: the same for small settings in a wide range, as logarithmic scales have."""
LAST_DIGITS = 1e-9
"""Relative to a variable's range: settings that differ by less are the same in any case."""
SAME_VALUE = 1e-9
"""Relative: values that differ by less are the same, written with other digits; exports have ten."""


def told_values(
    problem: Problem, y: Any, label: str = "", *, anyway: bool = False, others: Collection[Mapping[str, float]] = ()
) -> dict[str, float]:
    """Return the told values by output, without missing ones.

    Args:
        problem: The statement.
        y: What was told.
        label: What it is told of, for messages.
        anyway: Whether values outside of their ranges are meant.
        others: Other values of the outputs, which show what is rounding.
    """
    if y is None:
        return {}
    try:
        outputs = problem.told(y)
    except EvaluationError as error:
        raise TellError(f"{label}{error}") from error
    told = zip(problem.outputs, outputs, strict=True)
    values = {name: value for name, value in told if is_known(value)}
    for name, noise in zip(problem.outputs, problem.stated_noise, strict=True):
        if noise == 0 and isinstance(value := values.get(name), Measured) and not value.side:
            raise TellError(
                f"{label}'{name}' is stated to be exact (noise = 0), and a value of it was told with an error: leave "
                "the error out, or take noise = 0 from the statement"
            )
    doubted = [] if anyway else doubts(problem, values, others)
    if doubted:
        raise TellError(
            f"{label}{' '.join(doubted)} Nothing was recorded of it. If it is right, say so: {ways().anyway}"
        )
    return values


def answered(problem: Problem, answer: Any) -> tuple[dict[str, float], list[str]]:
    """Return the outputs that an answer of the black box has, and the names of what it has besides."""
    y, gaps, ignored = problem.answer(answer)
    if gaps:
        logger.warning("%s The other outputs count: the trial is measured in part", " ".join(gaps.values()))
    return {name: y[place] for place, name in enumerate(problem.outputs) if name not in gaps}, ignored


def is_recorded(row: Row, values: Mapping[str, float], point: Mapping[str, Any] | None) -> bool:
    """Tell whether what is told of a trial is in the record already."""
    is_open = row.state in (State.ASKED.value, State.PARTIAL.value, State.TOLD.value)
    is_same = all(says_no_more(value, row.y.get(name)) for name, value in values.items())
    return is_open and is_same and (point is None or dict(point) == dict(row.x if row.run is None else row.run))


def groups_of(block: str | None = "", campaign: str | None = "") -> dict[str, Any]:
    """Return to which block and campaign a trial belongs, as a record stores it; None where nothing is said."""
    named = zip(GROUPS, (block, campaign), strict=True)
    return {kind: None if name is None else cleaned_name(name) for kind, name in named}


def restored_trial(problem: Problem, row: Row) -> Trial:
    """Return a row of the record as a trial of the current question."""
    try:
        return Trial.of(problem, row)
    except KeyError as error:
        raise StoreError(
            f"trial {row.number} of the store cannot be read: it has no {error}. If that was renamed since "
            "this study was opened (pied revise), open it again with the new names"
        ) from error
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"trial {row.number} of the store cannot be read: {error}") from error


def outcomes(trials: Iterable[Trial]) -> list[Named]:
    """Return what was measured."""
    return [trial.y for trial in trials if trial.y is not None]


def run_point(problem: Problem, asked: Named, at: Mapping[str, Any], *, anyway: bool = False) -> dict[str, Any]:
    """Return the whole point at which a trial was run, given the variables that were set differently.

    Args:
        problem: The problem.
        asked: The proposed point.
        at: What was set differently.
        anyway: Whether values far outside of their ranges are right.

    Raises:
        StatementError: When a name is unknown, or a value is far outside of its range.
    """
    for name in at:
        if name not in problem.variables:
            raise StatementError(f"'{name}' is not a variable.{did_you_mean(name, problem.variables)}")
    point = dict(asked)
    for name, value in at.items():
        read = read_setting(problem, name, value)
        if not _is_same(problem, name, read, point[name]):  # else it is the known one, with the digits that are shown
            point[name] = read
    with np.errstate(all="ignore"):
        U = problem.box.to_unit(np.array([problem.codes(point)]))[0]
    for (name, box), value, u in zip(problem.variables.items(), point.values(), U.tolist(), strict=True):
        if not math.isfinite(u) or not (anyway or -OUTSIDE <= u <= 1.0 + OUTSIDE):
            raise StatementError(
                f"'{name}' = {value!r} is far outside of its range from {box.lo!r} to {box.hi!r}: check the number and "
                f"its unit. If it was really run there: {ways().anyway}"
            )
    given = problem.point(point, anywhere=True)  # whole numbers, equalities and candidates are kept
    return point if problem.candidates is None else dict(problem.named_x(given))


def read_setting(problem: Problem, name: str, value: Any) -> Any:
    """Return a setting as it is recorded: a number, a whole one, or a label that there is."""
    try:
        return problem.variables[name].recorded(value)
    except UnknownName as error:
        raise UnknownName(f"'{name}': {error}", value) from None


def added_point(problem: Problem, x: Any, *, anyway: bool = False) -> dict[str, Any]:
    """Return the point of old data; a little outside of the ranges it is data like others, and `anyway` anywhere.

    Raises:
        StatementError: When names are missing, or a value is far outside of its range.
    """
    point = dict(problem.named_x(problem.point(x, anywhere=True)))
    for name, box in problem.variables.items():
        if box.log and not point[name] > 0:
            raise StatementError(f"'{name}' = {point[name]!r} must be above 0, because its scale is logarithmic")
    with np.errstate(all="ignore"):
        U = problem.box.to_unit(np.array([problem.codes(point)]))[0]
    far = [] if anyway else np.flatnonzero(~((U >= -OUTSIDE) & (U <= 1.0 + OUTSIDE))).tolist()
    for place in far:
        name, box = list(problem.variables.items())[place]
        raise StatementError(
            f"'{name}' = {point[name]:.9g} is far outside of its range from {box.lo:.9g} to {box.hi:.9g}: check the "
            f"number and its unit. If it was really run there: {ways().anyway}"
        )
    return {
        name: value if box.is_choice or abs(u - min(max(u, 0.0), 1.0)) > ROUNDED else min(max(value, box.lo), box.hi)
        for (name, box), value, u in zip(problem.variables.items(), point.values(), U.tolist(), strict=True)
    }


def start_point(problem: Problem, x: Any) -> dict[str, Any]:
    """Return settings that are to be evaluated, as they can be set.

    Raises:
        StatementError: When they cannot be set.
    """
    point = dict(problem.named_x(problem.point(x)))
    ends = ends_of(point, problem.variables)
    X = np.array([ends[name][0] for name in problem.variables])
    exact = problem.completed(X)  # differs from what was written by rounding, or by as much as data may
    is_rounding = np.abs(exact - X) <= ROUNDING * (problem.bounds[:, 1] - problem.bounds[:, 0])
    return dict(problem.named_x(np.where(is_rounding, X, exact)))


def shared_names(problem: Problem, same: Iterable[str]) -> list[str]:
    """Return the variables that trials are to share, or say which is none."""
    names = [same] if isinstance(same, str) else list(same)
    for name in names:
        if name not in problem.variables:
            raise UnknownName(f"'{name}' is not a variable.{did_you_mean(name, problem.variables)}", name)
    return names


def starting(problem: Problem, start: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Read what a study starts with: the settings of each point, and its outputs if they were measured.

    Args:
        problem: The statement.
        start: A mapping of variables, and of outputs that were measured; or several.
    """
    points = [start] if isinstance(start, Mapping) else start
    if isinstance(points, str) or not isinstance(points, Iterable):
        raise StatementError(f"start= is a point, {{'T': 80, 'p': 2}}, or a list of points, got {start!r}")
    read = []
    for each in points:
        if not isinstance(each, Mapping):
            raise StatementError(f"a point to start with comes by the names of variables, {{'T': 80}}, got {each!r}")
        y = {name: value for name, value in each.items() if name in problem.outputs}
        x = {name: value for name, value in each.items() if name not in y}
        read.append((added_point(problem, x) if y else start_point(problem, x), y))
    return read


def remark(problem: Problem, point: Mapping[str, Any]) -> str:
    """Return a remark about the variables that were run outside of their ranges; empty if there are none."""
    parts = [
        f"{name} = {value:.9g} is outside of its range from {box.lo:.9g} to {box.hi:.9g}; it is used as data there"
        for (name, box), value in zip(problem.variables.items(), point.values(), strict=True)
        if not box.is_choice and not box.lo <= value <= box.hi
    ]
    return "; ".join(parts)


def reason(why: str) -> str:
    """Return the reason of a change; there must be one, because the record is read by others later."""
    if not str(why).strip():
        raise SettingError(f"say why in a few words, for those who read the record later: {ways().why}")
    return str(why).strip()


def worker_name(given: object) -> str:
    """Return the name of whoever works; it must not be blank, because trials are handed back by it."""
    if not (name := cleaned_name(given)):
        raise SettingError("the name of the worker is blank: give one (--worker, in Python worker=), or leave it out")
    return name


def note_text(text: str) -> str:
    """Return the text of a note; it must not be empty."""
    if not str(text).strip():
        raise SettingError("the note is empty: write a few words")
    return str(text).strip()


def same_rows(
    problem: Problem, trials: Iterable[Trial], rows: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
) -> dict[int, Trial]:
    """Return by their places the rows that are in the record already, each with a trial of its own that has its values.

    A row that is given twice must be there twice.
    """
    told = [trial for trial in trials if trial.y is not None]
    if not told:
        return {}
    X = np.array([trial.x.array for trial in told])
    Y = np.array([_compared(trial.y, problem.outputs) for trial in told if trial.y is not None])
    boxes = problem.variables.values()
    width = np.array([0.0 if box.is_choice else box.hi - box.lo for box in boxes])
    near = _rounding(width, X)
    # rows are compared with the trials that are near in the setting that tells most trials apart, not with all of them
    apart = int(np.argmax([len(np.unique(column)) for column in X.T]))
    order = np.argsort(X[:, apart], kind="stable")
    line, reach = X[order, apart], near[:, apart].max()
    is_free = np.ones(len(told), dtype=bool)
    found = {}
    for place, (x, y) in enumerate(rows):
        point, values = np.array(problem.codes(x)), _compared(y, problem.outputs)
        first, last = np.searchsorted(line, point[apart] - reach), np.searchsorted(line, point[apart] + reach, "right")
        those = np.sort(order[first:last])
        Y_near = Y[those]
        is_same = is_free[those] & (abs(X[those] - point) <= near[those]).all(axis=1)
        is_same &= (np.isnan(values) | (abs(Y_near - values) <= SAME_VALUE * np.maximum(abs(Y_near), abs(values)))).all(
            axis=1
        )
        if is_same.any():
            each = int(those[np.argmax(is_same)])
            is_free[each], found[place] = False, told[each]
    return found


def _compared(y: Mapping[str, float], outputs: Sequence[str]) -> np.ndarray:
    """Return values by which rows are compared: numbers, then limits with their sides; NaN where there are none."""
    told = [y.get(name, math.nan) for name in outputs]
    limits = [
        (each.said, each.side) if isinstance(each, Measured) and each.side else (math.nan, math.nan) for each in told
    ]
    return np.array([*(float(each) for each in told), *(part for each in limits for part in each)])


def more_said(
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]], known: Mapping[int, Trial]
) -> dict[int, list[str]]:
    """Return by the places of rows that are in the record the outputs whose errors are not."""
    found: dict[int, list[str]] = {}
    for place, trial in known.items():
        told: Mapping[str, float] = trial.y or {}
        given = rows[place][1].items()
        errors = {name: value for name, value in given if isinstance(value, Measured) and not value.side}
        missing = [name for name, value in errors.items() if not isinstance(told.get(name), Measured)]
        found |= {place: missing} if missing else {}
    return found


def _is_same(problem: Problem, name: str, given: Any, kept: Any) -> bool:
    """Tell whether a setting is the known one, perhaps written with fewer digits."""
    box = problem.variables[name]
    return bool(given == kept if box.is_choice else abs(given - kept) <= _rounding(box.hi - box.lo, kept))


def _rounding(width: Any, kept: Any) -> Any:
    """Return by how much settings may differ that are the same, written with other digits."""
    return np.maximum(LAST_DIGITS * width, np.minimum(SAME_POINT * width, SAME_DIGITS * abs(kept)))
