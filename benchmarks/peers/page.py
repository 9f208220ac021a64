"""Write docs/comparison.md, and the small table of the README, from the record of `run.py` and the code beside it."""

import ast
import math
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from problems import TASKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "comparison.md"
README = ROOT / "README.md"
MARKS = ("<!-- comparison: begin -->", "<!-- comparison: end -->")
TITLES = {"pied": "pied", "botorch": "BoTorch", "ax": "Ax", "optuna": "Optuna", "bofire": "BoFire", "baybe": "BayBE"}
FIRST = ("pied", "botorch", "ax", "optuna")
"""In the README."""
SHOWN = "reactor"
"""The problem whose code the page has in all libraries."""
TOLERANCES = (1e-2, 1e-6)
COMMAND = "python benchmarks/peers/run.py"

BEFORE = f"""# Other libraries on the same problems

Six small problems, stated in each library as its users would, run by one command:

<!-- not run -->
```console
$ pip install -r benchmarks/peers/requirements.txt      # in an environment of its own
$ {COMMAND}
```

The code, one file per library under `benchmarks/peers`, was written by the authors of `pied`. If a library is used
badly there, please tell us: the command makes this page again.

**How to read it.** *To 1 %* and *to 1e-6* are the evaluations, the first included, until a point that breaks no limit
is so close to the optimum, in units of the distance of a random feasible point (median), noise taken out. *Seconds* are
processor seconds per evaluation on one thread. With one seed or two, differences of a few evaluations mean nothing;
[the evidence](evidence.md) has more.
"""

AFTER = """## Problems that others chose

BoTorch's six constrained test functions, all of which is a black box: nothing is known, and `pied` has no advantage by
its method. Problems solved after 50 evaluations, five seeds ([record](../benchmarks/results/field.md)):

| | to 1e-2 | to 1e-3 | to 1e-6 |
| --- | --- | --- | --- |
| pied | 4.6 | 4.0 | 3.5 |
| Optuna, Gaussian processes | 4.4 | 3.4 | 0.0 |
| Optuna, TPE | 0.0 | 0.0 | 0.0 |
| random points | 0.0 | 0.0 | 0.0 |

On the spring, where a hundredth of the box is feasible, only TPE finds a feasible point in most runs. In noisy
campaigns with choices Optuna's Gaussian processes are a little ahead: median loss after 8, 16 and 24 proposals 0.32,
0.19, 0.09, `pied` 0.46, 0.22, 0.11 ([record](../benchmarks/results/campaigns-frozen.md)); they break limits half as
often.

## What they do better

These problems have a known part, which is what `pied` is made for. They do not show what the others are better at, as
found in the sources of {versions}.

- **BoTorch**: any model with any acquisition function, on GPUs; the loop is yours to write. `pied.bridge` uses its
  models.
- **Ax** manages experiments on your system, stops bad ones early, has dependent parameters and analyses with pictures.
- **Optuna** is the easiest to begin with: an objective is a plain function. It prunes bad trials and has many samplers.
  If nothing is known about the problem, start there.
- **BoFire** is made for chemists: mixtures with at most so many parts, molecules, classical designs.
- **BayBE** encodes substances by their chemistry, learns from related campaigns, and simulates campaigns.

All five have several objectives and all but Optuna several fidelities or tasks. `pied` has four objectives at most, one
fidelity, no molecules, no classical designs, no pruning and no GPU. It alone says that limits cannot be met together,
and stops by bounds. It is the youngest.
"""


def source(library: str, name: str) -> str:
    """Return the code of a function of a library's file, without its docstring's quotes changed."""
    text = (HERE / f"with_{library}.py").read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(text, node) or ""
    return ""


def constant(library: str, name: str) -> str:
    """Return a text that a library's file assigns."""
    for node in ast.parse((HERE / f"with_{library}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return str(ast.literal_eval(node.value))
    raise KeyError(name)


# --- Numbers ----------------------------------------------------------------------------------------------------------


def reached(run: dict[str, Any], tolerance: float) -> float:
    """Return the evaluations until the regret is below a tolerance, infinite if never."""
    found = (n for n, regret in enumerate(run.get("regrets", []), 1) if regret is not None and regret <= tolerance)
    return next(found, math.inf)


def count(runs: list[dict[str, Any]], tolerance: float) -> str:
    """Return the median of evaluations, the worse of two in the middle."""
    value = statistics.median_high([reached(each, tolerance) for each in runs])
    return "-" if math.isinf(value) else f"{value:.0f}"


def regret(runs: list[dict[str, Any]]) -> str:
    """Return the median of the best regrets."""
    best = [min((r for r in each.get("regrets", []) if r is not None), default=math.inf) for each in runs]
    value = statistics.median_high(best)
    return "none feasible" if math.isinf(value) else "< 1e-9" if value < 1e-9 else f"{value:.0e}"


def seconds(runs: list[dict[str, Any]]) -> float:
    """Return processor seconds per evaluation, from the first one on."""
    return statistics.median([sum(each["seconds"][1:]) / max(len(each["seconds"]) - 1, 1) for each in runs])


def of(record: dict[str, Any], library: str, problem: str) -> list[dict[str, Any]]:
    """Return the runs of a library on a problem, without those that found it not installed."""
    found = [each for each in record["runs"] if (each["library"], each["problem"]) == (library, problem)]
    return [each for each in found if each["ended"] != "absent" and each["seconds"]]


# --- Tables -----------------------------------------------------------------------------------------------------------


def table(record: dict[str, Any], libraries: Iterable[str], head: str, cell: Callable[..., str]) -> list[str]:
    """Return a row for each problem and a column for each library."""
    names = [TITLES[each] for each in libraries]
    rows = [f"| {head} | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for problem, task in TASKS.items():
        found = [of(record, library, problem) for library in libraries]
        rows.append(f"| {task.title} | {' | '.join(cell(task, runs) if runs else 'not run' for runs in found)} |")
    return rows


def reaching(task: Any, runs: list[dict[str, Any]]) -> str:
    """Return the evaluations to both tolerances, or until the verdict."""
    if task.has_solution:
        cut = min((len(each["seconds"]) for each in runs if each["ended"] == "limit"), default=0)
        return ", ".join(count(runs, each) for each in TOLERANCES) + (f" (cut off after {cut})" if cut else "")
    found = [len(each["seconds"]) for each in runs if each.get("verdict")]
    return f"recognized after {statistics.median_high(found)}" if found else "not recognized"


def ending(task: Any, runs: list[dict[str, Any]]) -> str:
    """Return the regret that is left, and the seconds."""
    return f"{regret(runs)}, {seconds(runs):.2f} s" if task.has_solution else f"{seconds(runs):.2f} s"


def errors(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each run that ended by an error."""
    ended = [each for each in record["runs"] if each["ended"] == "error"]
    return [
        f"- {TITLES[each['library']]}, {TASKS[each['problem']].title}: `{each.get('error', '')[:80]}`" for each in ended
    ]


def small(record: dict[str, Any]) -> list[str]:
    """Return the table of the README: evaluations to 1 % and to 1e-6 by problem, seconds, the verdict."""
    rows = table(record, FIRST, "evaluations to 1 %, to 1e-6", reaching)
    spent = [[seconds(of(record, each, p)) for p in TASKS if of(record, each, p)] for each in FIRST]
    rows.append("| seconds per evaluation, median | " + " | ".join(
        f"{statistics.median(each):.2f}" if each else "-" for each in spent) + " |")  # fmt: skip
    return rows


def versions(record: dict[str, Any]) -> list[str]:
    """Return the libraries with the versions that were run."""
    found = {each["library"]: each["version"] for each in record["runs"] if "version" in each}
    return [f"{TITLES[name]} {found[name]}" for name in TITLES if name in found]


def _seeds(record: dict[str, Any]) -> str:
    """Return how many seeds each library had, on the problem on which it had fewest."""
    fewest: dict[int, list[str]] = {}
    for library, title in TITLES.items():
        counts = [len({each["seed"] for each in of(record, library, problem)}) for problem in TASKS]
        fewest.setdefault(min((each for each in counts if each), default=0), []).append(title)
    groups = {number: names for number, names in sorted(fewest.items(), reverse=True) if number}
    words = [f"{number} seed{'s' * (number > 1)}" for number in groups]
    if len(groups) == 1:
        return words[0]
    return ", ".join(f"{word} for {' and '.join(names)}" for word, names in zip(words, groups.values(), strict=True))


def origin(record: dict[str, Any]) -> str:
    """Return versions, dates, seeds, the machine and the limits of runs."""
    shown = ", ".join(versions(record))
    absent = [title for name, title in TITLES.items() if not any(of(record, name, problem) for problem in TASKS)]
    dates = sorted({each["date"] for each in record["runs"]})
    seeds = _seeds(record)
    missing = f" Not installed, so not run: {', '.join(absent)}." if absent else ""
    limits = sorted({each["limit"] for each in record["runs"]})
    limit = " to ".join(f"{each:.0f}" for each in dict.fromkeys((limits[0], limits[-1])))
    return (
        f"{shown}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {seeds}; "
        f"{record.get('machine', '')}; at most {limit} processor seconds for a run.{missing}"
    )


def comparison(record: dict[str, Any]) -> str:
    """Return the whole page."""
    parts = [BEFORE, f"**Made with** {origin(record)} Record: [peers.json](../benchmarks/results/peers.json).\n"]
    parts.append(
        "## Results\n\nEvaluations to 1 % and to 1e-6; a dash: not within the budget of 25 or 30. *Cut off*: by the "
        "limit of seconds.\n"
    )
    parts.append("\n".join(table(record, TITLES, "problem", reaching)) + "\n")
    parts.append("Regret at the end, and seconds per evaluation:\n")
    parts.append("\n".join(table(record, TITLES, "problem", ending)) + "\n")
    parts += ["Ended by an error:\n", "\n".join(errors(record)) + "\n"] if errors(record) else []
    checked = [each for each in versions(record) if not each.startswith("pied ")]
    parts.append(AFTER.replace("{versions}", f"{', '.join(checked[:-1])} and {checked[-1]}"))
    parts.append("## The code, side by side\n")
    parts.append(f"For {TASKS[SHOWN].title}; that for the others, and how each is used, is in the files.\n")
    parts.extend(_folded(title, source(name, SHOWN)) for name, title in TITLES.items())
    return "\n".join(parts).rstrip() + "\n"


def _folded(title: str, code: str) -> str:
    """Return code that a reader unfolds; it is not run by the tests of the pages."""
    lines = len(code.splitlines())
    summary = f'<details markdown="1"><summary>{title}, {lines} lines</summary>'
    return f"{summary}\n\n<!-- not run -->\n```python\n{code}\n```\n\n</details>\n"


def with_table(readme: str, record: dict[str, Any]) -> str:
    """Return the README with its table as the record has it."""
    begin, end = MARKS
    before, _, rest = readme.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        return readme
    return f"{before}{begin}\n" + "\n".join(small(record)) + f"\n{end}{after}"


def write_page(record: dict[str, Any]) -> None:
    """Write the page and the README's table."""
    PAGE.write_text(comparison(record))
    README.write_text(with_table(README.read_text(), record))
