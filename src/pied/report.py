"""A report of a study as one self-contained page: question, answer, pictures, trials, history, settings."""

import base64
import contextlib
import html
import io
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from pied import writing
from pied.errors import MissingExtra, PiedError, SettingError
from pied.measured import is_known, shown
from pied.plots import Predictions, draw, draw_posterior, gaps, predictions
from pied.problem import Problem, Variable
from pied.records import Dataset, State, Trial, feasible
from pied.study import Result, Study, Words, about, counted, figure, short

MOST_COLUMNS = 12
"""Outputs in the table of trials; the columns of more would not fit on a page."""
DIGITS = 6
"""Significant digits of told values."""
NOISY_DIGITS = 4
"""Significant digits of the objective at measurements with noise."""
SETTING_RESOLUTION = 1e-4
"""Relative to its range: how exactly a setting is shown."""
PICTURES = {
    "history": "Value of each trial, and the best so far.",
    "front": "The best trade-offs between the objectives, and where the front could still lie.",
    "gap": "How much better any settings could still be, after each trial.",
    "region": "Settings that meet all limits (blue), may meet them (hatched) or cannot, and the trials.",
    "slices": "Objective and limits when one setting changes and the others stay as recommended (dotted line): the "
    "expected value, and the band in which it probably lies. Dashed: the limit.",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #bbb; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #888; } td.n, th.n { text-align: right; }
.answer { background: #eef5fb; padding: .6rem 1rem; border-left: 4px solid #0072B2; } .small { font-size: .85rem; }
.no { color: #b03a00; font-weight: 600; } .w, .small td:first-child { white-space: nowrap; }
figure { margin: 1rem 0; break-inside: avoid; } img { max-width: 100%; }
figcaption { font-size: .85rem; color: #444; } .wide { overflow-x: auto; } code { font-size: .9em; }
@media print { body { font-size: 10pt; margin: 0; max-width: none; } tr, .answer { break-inside: avoid; }
h2, h3, p:has(+ table) { break-after: avoid; } img { max-height: 8cm; } p { orphans: 3; widows: 3; }
.wide { overflow: visible; page: across; font-size: 8pt; } .wide th, .wide td { padding-right: .4rem; }
thead { display: table-header-group; } } @page across { size: A4 landscape; margin: 1.2cm; }
"""


def write(study: Study, file: str | Path) -> Path:
    """Write the report of a study to a file."""
    place, text = Path(file), page(study)
    try:
        writing.write(place, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingError(f"the report cannot be written to '{place}': {reason}") from error
    return place


def page(study: Study) -> str:
    """Return the report of a study as HTML."""
    result = study.result()
    shown = _known(lambda: predictions(study))
    title = f"Report: {study.name or short(study.problem.objective)}"
    parts = [
        f"<h1>{_(title)}</h1><p class='small'>{_(_when(datetime.now().timestamp()))}, pied {_(_version())}</p>",
        _question(study.problem),
        _answer(study, result),
        _pictures(study),
        _sure(study),
        _predicted(study, shown),
        _trials(study),
        _history(study),
        _settings(study),
    ]
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{_(title)}</title>"
    body = "\n".join(parts)
    return (
        f"<!DOCTYPE html>\n<html lang='en'><head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


# ------------------------------------------------------------------------------------------------------------ question


def _question(problem: Problem) -> str:
    stated = problem.statement()
    unit = f" ({_(problem.unit)})" if problem.unit else ""
    is_search = problem.objective == "any feasible point"
    goal = "lowest" if problem.minimizes else "highest"
    formula = stated["objective"].get("formula")
    meaning = f" = <code>{_(formula)}</code>" if formula and formula != problem.objective else ""
    aim = "that meet all limits" if is_search else f"with the {goal} {_(problem.objective)}{meaning}{unit}"
    if problem.has_front:
        goals = " and ".join(
            f"the {'lowest' if each.minimizes else 'highest'} {_(each.name)}" for each in problem.goals
        )
        aim = f"with the best trade-offs between {goals}"
    kinds = [[name, _values(each) + ("" if name in problem.axes else ", follows from the others"),
              each.unit + (" (log scale)" if each.log else "")]
             for name, each in problem.variables.items()]  # fmt: skip
    outputs = [[name, problem.units.get(name, ""), _open(*problem.ranges[j].tolist()), _noise(problem, j)]
               for j, name in enumerate(problem.outputs)]  # fmt: skip
    limits = [[name, each.get("formula") or "a function, met when >= 0"]
              for name, each in zip(problem.constraints, stated["subject_to"], strict=True)]  # fmt: skip
    limits += [[name, f"{text.replace('`', '')} (exactly)"] for name, text in problem.held.items()]
    constants = [[name, _short_constant(value)] for name, value in problem.constants.items()]
    listed = f" One of {len(problem.candidates)} listed candidates is to be chosen." if problem.candidates else ""
    return (
        f"<h2>The question</h2><p>Find the settings {aim}.{listed}</p>"
        + _table(["setting", "range", "unit"], kinds)
        + (_table(["limit", "what must hold"], limits) if limits else "<p>There are no limits.</p>")
        + _table(["measured", "unit", "possible values", "noise (standard deviation)"], outputs)
        + (_table(["constant", "value"], constants) if constants else "")
    )


def _short_constant(value: float | tuple[float, ...]) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{len(value)} numbers, {min(value):g} to {max(value):g}"


def _range(low: float, high: float) -> str:
    return f"{low:g} to {high:g}"


def _values(variable: Variable) -> str:
    """Return what a variable can be set to."""
    if variable.is_listed:
        return f"one of {variable.span[1:-1]}"
    if variable.whole:
        return f"{_range(variable.lo, variable.hi)}, whole numbers"
    return _range(variable.lo, variable.hi) + _steps(variable)


def _steps(variable: Variable) -> str:
    """Return which settings of a variable can be set, if not all."""
    if not variable.is_stepped:
        return ""
    values = variable.levels()
    return f", {len(values)} values: {values[0]:g}, {values[1]:g}, ... {values[-1]:g}"


def _open(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "any"
    return (
        _range(low, high) if math.isfinite(low + high) else f"from {low:g}" if math.isinf(high) else f"up to {high:g}"
    )


def _noise(problem: Problem, j: int) -> str:
    noise, name = problem.stated_noise[j], problem.outputs[j]
    own = "learned" if noise is None else "exact" if noise == 0 else f"{noise:g}"
    own += f", in steps of {problem.resolutions[name]:g}" if name in problem.resolutions else ""
    return own + (f", n.d. below {problem.lods[name]:g}" if name in problem.lods else "")


# -------------------------------------------------------------------------------------------------------------- answer


def _answer(study: Study, result: Result) -> str:
    words = result.words or Words()
    lines = [f"<h2>The answer</h2><div class='answer'><p>{_(result.message)}</p>"]
    if result.front is not None and len(result.front) and result.x is not None:
        lines += [result.front.html(), *(f"<p>{_(line)}</p>" for line in result.front.still())]
        lines.append(_table(["setting", "balanced choice"], [[n, words.setting(n, v)] for n, v in result.x.items()]))
    elif result.x is not None:
        worth = words.worth(result.value, result.bounds[result.objective], is_measured=result.rule == "observed")
        lines.append(f"<p><strong>{_(worth)}</strong></p>")
        lines.append(_table(["setting", "recommended"], [[n, words.setting(n, v)] for n, v in result.x.items()]))
        still = result.still
        lines += [f"<p>{_(still[0].upper() + still[1:])}.</p>"] if still else []
    lines += [*(f"<p class='no'>{_(each)}</p>" for each in result.remarks()), "</div>"]
    if result.slack:
        lines += ["<h3>Limits at these settings</h3>", _limits(study.problem, result)]
    if result.x is not None:
        lines.append(f"<p>What it rests on: {_(counted(result.trials))}. {_(result.why)} ")
        known = "" if result.why else f"They are those of trial {result.trial}."
        at = known if result.trial is not None else "They have not been measured yet."
        share = round(100 * (2 * result.level - 1))
        if result.is_too_few:
            return "".join([*lines, f"{at}</p>"])
        lines.append(f"{at} &ldquo;Probably&rdquo; means with a probability of about {share} %.</p>")
        lines.append(_expected(study, result))
        lines.append(_worth(study, result))
    return "".join(lines)


def _worth(study: Study, result: Result) -> str:
    """Return what limits and constants are worth, and which settings matter."""
    found = _known(lambda: result.sensitivities)  # the ranges within which settings hold take a minute: `pied worth`
    said = [] if found is None else found.lines()
    text = (
        "<h3>What limits and constants are worth</h3>" + "".join(f"<p>{_(line)}</p>" for line in said) if said else ""
    )
    shares = _known(study.importance)
    if not shares:
        return text
    rows = [[name, *(f"{100 * share:.0f} %" for share in each.values())] for name, each in shares.items()]
    heads = ["output", *next(iter(shares.values()))]
    return (
        f"{text}<h3>Which settings matter</h3><p>Share of each output's variation over the ranges that a setting has a "
        f"part in.</p>{_table(heads, rows[:MOST_COLUMNS])}"
    )


def _limits(problem: Problem, result: Result) -> str:
    limits, words, rows = problem.limits(), Words.of(problem), []
    for name, slack in result.slack.items():
        low, high = result.bounds[name]
        limit = limits.get(name)
        width = 0.0 if result.is_too_few else high - low
        own = limit.quantity if limit is not None else ""
        at = words.united(figure(limit.quantity_at(slack), width), own) if limit is not None else ""
        end = f"{limit.sign} {words.united(f'{limit.value:g}', own)}" if limit is not None else ">= 0"
        ends = f"{figure(low, width)} to {figure(high, width)}" if width > 0 else ""
        margin = words.united(figure(slack, width), own)
        met = result.limit_line(name).rpartition(": " if limit is not None else ", ")[2]
        rows.append([name, own, at, end, margin, ends, met])
    return _table(["limit", "quantity", "value", "must be", "margin", "margin probably", "met"], rows, bad=("NOT",))


def _expected(study: Study, result: Result) -> str:
    """Return what is expected of each output at the recommended settings."""
    found = _known(lambda: study.expect(result.x))
    if not found:
        return ""
    words = Words.of(study.problem)
    rows = [[name, words.united(figure(middle, high - low), name), f"{figure(low, high - low)} to "
             f"{figure(high, high - low)}"] for name, (low, middle, high) in found.items()]  # fmt: skip
    return "<h3>A measurement there probably gives</h3>" + _table(["output", "expected", "probably"], rows)


# ------------------------------------------------------------------------------------------------------------ pictures


def _pictures(study: Study) -> str:
    left_out = {"gap"} if study.problem.has_front else {"front"}
    known = gaps(study.problem, study.snapshot.current).gap
    if int(np.isfinite(known).sum()) < 2:  # nothing would be in the picture
        left_out.add("gap")
    kinds = [kind for kind in PICTURES if kind not in left_out and (kind != "region" or study.problem.d == 2)]
    figures = [_picture(study, kind, PICTURES[kind]) for kind in kinds]
    return "<h2>Pictures</h2>" + "".join(figures)


def _picture(study: Study, kind: str, caption: str) -> str:
    """Return a picture as a figure; a sentence where it cannot be drawn yet, or matplotlib is missing."""
    made = io.BytesIO()
    try:
        draw(study, kind, file=made, format="svg")
    except (MissingExtra, SettingError) as error:
        return f"<p class='small'>No picture &ldquo;{_(kind)}&rdquo;: {_(str(error))}</p>"
    data = base64.b64encode(made.getvalue()).decode()
    source = f"data:image/svg+xml;base64,{data}"
    return f"<figure><img alt='{_(kind)}' src='{source}'><figcaption>{_(caption)}</figcaption></figure>"


def _sure(study: Study) -> str:
    """Return how sure the parameters are, of a fit: an objective that is a sum of squares of outputs."""
    problem = study.problem
    if problem.has_front or problem.structure[0].kind != "general":
        return ""
    found = _known(study.posterior)
    if found is None or not found.is_converged:
        return ""
    made = io.BytesIO()
    with contextlib.suppress(MissingExtra):
        draw_posterior(found, made, "svg")
    source = f"data:image/svg+xml;base64,{base64.b64encode(made.getvalue()).decode()}"
    picture = f"<figure><img alt='posterior' src='{source}'></figure>" if made.getvalue() else ""
    return f"<h2>How sure the parameters are</h2>{found._repr_html_()}{picture}"


def _predicted(study: Study, shown: Predictions | None) -> str:
    """Return how well the outputs are predicted, and their noise."""
    if shown is None:
        return ""
    problem = study.problem
    words, noise, rows = Words.of(problem), study.snapshot.noise(), []
    for j, name in enumerate(problem.outputs):
        held, count = shown.inside(j)
        error = about(shown.error(j)) if count else "-"
        stated = "stated" if problem.noise[j] is not None else "learned"
        least, most = (about(each) for each in noise[name])
        size = least if least == most else f"{least} to {most}"
        told = f"{words.united(size, name)} ({stated})"
        if problem.noise[j] == 0:
            told = "exact (gave the same values again)" if name in problem.exact_by_repetition else "exact"
        rows.append([name, words.united(error, name) if count else "-", f"{held} of {count}", told])
    heads = ["output", "typical error", "within its band", "noise (standard deviation)"]
    return (
        "<h2>Predicted against measured</h2><p>Each measurement is predicted from all others.</p>"
        + _table(heads, rows)
        + _picture(study, "outputs", "Points near the dashed line are predicted well; bars show the predicted band.")
        + _picture(
            study, "residuals", "Error of each prediction over the half width of its band: most lie in the grey."
        )
    )


# ----------------------------------------------------------------------------------------------------- trials, history


def _trials(study: Study) -> str:
    problem, trials = study.problem, study.trials
    outputs = problem.outputs[:MOST_COLUMNS]
    data = Dataset.of(problem, trials)
    f = data.functions(problem)
    worth = dict(zip(data.numbers, f[:, 0].tolist(), strict=True))
    meets = dict(zip(data.numbers, feasible(problem, f).tolist(), strict=True))
    words = Words.of(problem)
    digits = DIGITS if problem.is_exact else NOISY_DIGITS
    noted = [each for each in study.history() if each.kind == "noted"]
    notes = {one.number: "; ".join(each.why for each in noted if each.number == one.number) for one in noted}
    heads = ["trial", *(_with_unit(n, words.units) for n in (*problem.variables, *outputs))]
    heads += [f"{short(problem.objective)}{f' [{problem.unit}]' if problem.unit else ''}", "", "who", "when"]
    rows = []
    for trial in trials:
        value = worth.get(trial.number, math.nan)
        rows.append([
            str(trial.number),
            *(_setting(problem, name, trial.x[name]) for name in problem.variables),
            *(_told(trial, name) for name in outputs),
            f"{problem.user_value(value):.{digits}g}" if math.isfinite(value) else "",
            "; ".join(filter(None, [trial.groups, _state(problem, trial, meets.get(trial.number, False)),
                                    notes.get(trial.number)])),
            trial.worker,
            _when(trial.settled or trial.asked),
        ])  # fmt: skip
    table = _table(heads, rows, bad=("failed", "breaks"), numbers=len(heads) - 3)
    return f"<h2>All trials</h2><p>{_(counted(trials))}.</p><div class='wide small'>{table}</div>"


def _setting(problem: Problem, name: str, value: Any) -> str:
    """Return a setting with digits to a ten-thousandth of its range, which no instrument resolves better."""
    if isinstance(value, str | int):
        return str(value)
    width = problem.variables[name].hi - problem.variables[name].lo
    for digits in range(4, 17):
        if abs(float(f"{value:.{digits}g}") - value) <= SETTING_RESOLUTION * width:
            break
    return f"{value:.{digits}g}"


def _with_unit(name: str, units: Mapping[str, str]) -> str:
    return f"{name} [{units[name]}]" if name in units else name


def _told(trial: Trial, name: str) -> str:
    value = math.nan if trial.y is None else trial.y[name]
    return shown(value, DIGITS) if is_known(value) else ""


def _state(problem: Problem, trial: Trial, is_met: bool) -> str:
    if trial.state is State.FAILED:
        return trial.failure
    old = "older; " if trial.is_added else ""
    if trial.state is State.WITHDRAWN:
        return f"{old}withdrawn: {trial.reason}"
    if trial.state is not State.TOLD:
        return "open" if trial.state is State.ASKED else f"{old}measured in part"
    return old + ("all limits met" if is_met else "breaks a limit") if problem.n else old.rstrip("; ")


AMENDED = ("corrected", "withdrawn", "restored", "run elsewhere", "noted", "renamed")
"""What happened besides asking and telling."""


def _history(study: Study) -> str:
    rows = []
    for question in study.questions:
        stated = question.statement
        goal = stated["objective"].get("formula") or stated["objective"]["name"]
        limits = "; ".join(each.get("formula") or each["name"] for each in stated["subject_to"])
        fixed = ", ".join(f"{name} = {value:g}" for name, value in stated["constants"].items() if not _is_list(value))
        rows.append([str(question.number), _when(question.asked), f"{stated['sense']} {goal}", limits, fixed])
    lines = ["<h2>History</h2>", _table(["question", "asked", "goal", "limits", "constants"], rows)]
    events = [each for each in study.history() if each.kind in AMENDED]
    if events:
        done = [[_when(each.made), each.worker, str(each.number or ""), each.what] for each in events]
        lines.append("<p>What was corrected, withdrawn, run elsewhere, noted or renamed; nothing is erased:</p>")
        lines.append(_table(["when", "who", "trial", "what"], done))
    others = [each for each in study.values if not each.counts]
    if others:
        told = [[str(v.number), v.output, shown(v.value, DIGITS), v.worker, _when(v.told)] for v in others]
        lines.append("<p>Values told that do not count (replaced, repeated, contradicting or too late):</p>")
        lines.append(_table(["trial", "output", "value", "who", "when"], told))
    return "".join(lines)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _settings(study: Study) -> str:
    rows = [
        ["study", study.name or "(not named)"],
        ["solver", study.solver.name],
        ["settings", repr(study.solver)],
        ["seed", str(study.seed)],
        ["first points", str(study.initial)],
        ["pied", _version()],
        ["Python", platform.python_version()],
        ["NumPy, SciPy", f"{np.__version__}, {scipy.__version__}"],
        ["machine", f"{platform.system()} {platform.machine()}"],
    ]
    return f"<h2>Settings and versions</h2><div class='small'>{_table(['', ''], rows)}</div>"


# ---------------------------------------------------------------------------------------------------------------- HTML


def _(text: object) -> str:
    """Return text that is safe in HTML."""
    return html.escape("".join(each if each.isprintable() else " " for each in str(text)), quote=True)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, bad: Sequence[str] = (), numbers: int = 0) -> str:
    """Return a table; cells that contain a bad word are marked, the first few columns are numbers."""

    def cell(tag: str, place: int, text: str) -> str:
        kind = "n" if place < numbers else "no" if any(word in text for word in bad) and tag == "td" else ""
        kind = "w" if _TIME.fullmatch(text) else kind
        return f"<{tag}{f' class={kind!r}' if kind else ''}>{_(text)}</{tag}>"

    top = "".join(cell("th", place, head) for place, head in enumerate(heads)) if any(heads) else ""
    body = "".join(f"<tr>{''.join(cell('td', place, text) for place, text in enumerate(row))}</tr>\n" for row in rows)
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>\n{body}</tbody></table>\n"


_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
"""A time as `_when` writes it; it must not be broken into two lines."""


def _known(ask: Callable[[], Any]) -> Any:
    """Return an answer, or None where the record does not have one yet."""
    with contextlib.suppress(PiedError, ValueError, IndexError):
        return ask()
    return None


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _version() -> str:
    try:
        return metadata.version("pied")
    except metadata.PackageNotFoundError:
        return "unknown"
