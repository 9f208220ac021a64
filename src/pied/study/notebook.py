"""A study in a notebook: a screen that is there at once, because it is made of what is known and fits no model."""

import math
from collections.abc import Iterable
from html import escape

from pied.errors import Status
from pied.markup import table
from pied.measured import is_sided, shown
from pied.problem import Named, Problem
from pied.records import State, Trial, feasible
from pied.study.progress import best, front_lines
from pied.study.result import Result
from pied.study.snapshot import Snapshot
from pied.study.words import Words, counted, failed, figure, short, titled

LAST = 5
"""Trials that are shown: the newest."""
MOST_OUTPUTS = 6
"""Columns for outputs; a table with more does not fit beside a text."""
STATES = {
    State.ASKED: "open",
    State.PARTIAL: "measured in part",
    State.FAILED: "failed",
    State.WITHDRAWN: "withdrawn",
}
FULL = "<code>study.report('report.html')</code> writes all of it, <code>pied.plots</code> draws it."


def screen(snapshot: Snapshot, status: Status, result: Result | None) -> str:
    """Return where a study stands as HTML: verdict, settings, limits, the last trials, and what to call next.

    Args:
        snapshot: The study at this moment.
        status: Its status.
        result: The answer, if it was computed for this moment; else told values alone are shown.
    """
    if not snapshot.trials:
        how = "run(budget)" if snapshot.problem.blackbox is not None else "ask()"
        return f"<p>{escape(snapshot.message(status))} Begin with <code>study.{how}</code>.</p>"
    parts = _answer(snapshot, result) if result is not None else _so_far(snapshot, status)
    lost = [] if status is Status.BROKEN else failed(snapshot.trials)
    hint = FULL if result is not None else f"<code>study.result()</code> fits the models and adds bounds. {FULL}"
    return "".join(
        [
            "<div>",
            *parts,
            _last_trials(snapshot),
            f"<p>{escape(counted(snapshot.trials))}; seed {snapshot.seed}</p>",
            _list(lost),
            f"<p><small>{hint}</small></p></div>",
        ]
    )


def _answer(snapshot: Snapshot, result: Result) -> list[str]:
    """Return the recommendation with its bounds."""
    parts = [f"<p>{escape(result.message)}</p>"]
    if result.x is None:
        return parts
    words = result.words or Words.of(snapshot.problem)
    if result.front is not None and len(result.front):
        parts += [result.front.html(), *(f"<p>{escape(line)}</p>" for line in result.front.still())]
        return [*parts, _settings(snapshot.problem, words, result.x, "balanced choice")]
    if words.objective != "any feasible point":
        worth = words.worth(result.value, result.bounds[result.objective], is_measured=result.rule == "observed")
        parts.append(f"<p><strong>{escape(worth)}</strong></p>")
    parts.append(_settings(snapshot.problem, words, result.x, "recommended"))
    parts.append(_list(each.text for each in result.limit_lines))
    return [*parts, _sentence(result.still), _list(result.remarks())]


def _so_far(snapshot: Snapshot, status: Status) -> list[str]:
    """Return the best told settings, as told."""
    words, found = Words.of(snapshot.problem), best(snapshot)
    parts = [f"<p>{escape(snapshot.message(status))}</p>"]
    if found is None:
        is_told = any(trial.state is State.TOLD for trial in snapshot.trials)
        said = f"No settings are known to meet all limits{snapshot.doubt}."
        return [*parts, f"<p>{escape(said)}</p>"] if is_told and status is not Status.INFEASIBLE else parts
    if snapshot.problem.has_front:
        return [*parts, *(f"<p>{escape(line.strip())}</p>" for line in front_lines(snapshot))]
    measured = "" if words.is_exact else " measured"
    if words.objective != "any feasible point":
        unit = f" {words.unit}" if words.unit else ""
        worth = f"{titled(words.objective)} {figure(found.value)}{unit}{measured}"
        parts.append(f"<p><strong>{escape(worth)}</strong></p>")
    parts.append(_settings(snapshot.problem, words, found.trial.x, f"best so far, trial {found.trial.number}"))
    parts.append(_list(each.text for each in words.limit_lines(found.margins)))
    return [*parts, _sentence(words.still(0.0))] if snapshot.is_exhausted else parts


def _sentence(text: str) -> str:
    """Return a phrase as a paragraph; nothing if there is none."""
    return f"<p>{escape(text[0].upper() + text[1:])}.</p>" if text else ""


def _settings(problem: Problem, words: Words, x: Named, title: str) -> str:
    """Return settings beside what they could be."""
    rows = [[name, words.setting(name, value), problem.variables[name].span] for name, value in x.items()]
    return table(["", title, "within"], rows)


def _last_trials(snapshot: Snapshot) -> str:
    """Return the newest trials: settings, outputs, the objective, and whether all limits are met."""
    problem, words = snapshot.problem, Words.of(snapshot.problem)
    outputs = problem.outputs[:MOST_OUTPUTS]
    data = snapshot.record
    f = data.functions(problem)
    worth = dict(zip(data.numbers, f[:, 0].tolist(), strict=True))
    meets = dict(zip(data.numbers, feasible(problem, f).tolist(), strict=True))
    is_own = problem.has_front or problem.objective in (*outputs, "any feasible point")  # a column would add nothing
    rows = []
    for trial in reversed(snapshot.trials[-LAST:]):
        value = worth.get(trial.number, math.nan)
        row = [str(trial.number), *(words.setting(name, trial.x[name]) for name in problem.variables)]
        row += [_told(trial, name) for name in outputs]
        row += [] if is_own else [figure(problem.user_value(value)) if math.isfinite(value) else ""]
        broken = "breaks a limit" if problem.n and not meets.get(trial.number, True) else ""
        rows.append([*row, STATES.get(trial.state, broken)])
    named = [_with_unit(words, name) for name in outputs]
    heads = ["trial", *problem.variables, *named, *([] if is_own else [short(problem.objective)]), ""]
    more = len(problem.outputs) - len(outputs)
    return table(heads, rows) + (f"<p>and {more} more outputs</p>" if more else "")


def _told(trial: Trial, name: str) -> str:
    """Return a told value; nothing where there is none."""
    value = math.nan if trial.y is None else trial.y[name]
    return shown(value, 4) if is_sided(value) else figure(float(value)) if math.isfinite(value) else ""


def _with_unit(words: Words, name: str) -> str:
    """Return the name of an output with its unit."""
    return f"{name} [{words.units[name]}]" if name in words.units else name


def _list(lines: Iterable[str]) -> str:
    """Return lines as a list; nothing if there are none."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""
