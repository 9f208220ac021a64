"""Write docs/evidence.md: six figures and one table from the pages and records under benchmarks/results.

Every number is read from a result page, none is typed here, so the page cannot say what was not measured:

    python benchmarks/evidence.py            # writes docs/evidence.md and docs/evidence/*.svg
    python benchmarks/evidence.py --check    # fails if they are out of date

Figures are plain SVG without a plotting library: the same bytes everywhere, and a few kilobytes each.
"""

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 40
OURS, OTHERS = "#00796b", ("#d97706", "#6366f1", "#be123c", "#64748b", "#a16207", "#0284c7")
NAMES = {
    "cuqb": "pied",
    "cuqb-paper": "CUQB as published",
    "eic-cf-paper": "EIC-CF",
    "eic-paper": "EIC",
    "epbo-paper": "EPBO",
    "cma-es-paper": "CMA-ES",
    "direct-paper": "DIRECT",
}
"""What solvers of the paper's comparison are called in the figures, and which of them are shown."""


def link(page: str) -> str:
    """A link to a result page, from docs/."""
    return f"[{page}](../benchmarks/results/{page})"


def tables(page: str, heading: str | None = None) -> list[list[list[str]]]:
    """The tables of a result page as rows of cells, of one section if a heading is given."""
    text = (RESULTS / page).read_text()
    if heading is not None:
        found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.S | re.M)
        if found is None:
            raise SystemExit(f"benchmarks/results/{page} has no section '{heading}'")
        text = found[1]
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.M)
    return [
        [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
            if not re.fullmatch(r"[|\s:-]+", line)
        ]
        for block in blocks
    ]


def read(page: str, pattern: str) -> tuple[str, ...]:
    """What a pattern finds in a result page; the page is the record, so a missing sentence is an error."""
    found = re.search(pattern, (RESULTS / page).read_text())
    if found is None:
        raise SystemExit(f"benchmarks/results/{page} no longer says '{pattern}'")
    return found.groups()


def columns(record: str) -> dict[str, list[float]]:
    """The columns of a record of numbers."""
    with (RESULTS / record).open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def leading(cell: str) -> float:
    """The number that a cell begins with."""
    found = re.match(r"[-\d.]+(?:e[-+]?\d+)?", cell)
    if found is None:
        raise SystemExit(f"'{cell}' does not begin with a number")
    return float(found[0])


def _canvas(title: str, parts: Sequence[str], about: str) -> str:
    """A figure with its title on a light ground, so that it can be read in dark mode."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="sans-serif">',
            f"<title>{escape(title)}</title><desc>{escape(about)}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fbfbfa"/>',
            f'<text x="14" y="21" font-size="13" font-weight="bold" fill="#111">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#333", size: int = 10) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}">{escape(words)}</text>'


def lines(title: str, about: str, series: dict[str, list[float]], *, across: str, up: str, log: bool) -> str:
    """Draw curves over evaluations; the first is ours."""
    low = min(min(values) for values in series.values())
    high = max(max(values) for values in series.values())
    scale: Callable[[float], float] = math.log10 if log else float
    floor, ceiling = (math.floor(math.log10(low)), math.ceil(math.log10(high))) if log else (0.0, high)
    count = max(len(values) for values in series.values())
    label = 112  # room for the names at the right

    def place(evaluation: int, value: float) -> tuple[float, float]:
        part = (scale(value) - floor) / (ceiling - floor)
        x = LEFT + (WIDTH - LEFT - RIGHT - label) * (evaluation - 1) / (count - 1)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    parts = []
    ticks = range(int(floor), int(ceiling) + 1, max(1, int(ceiling - floor) // 5)) if log else _round_ticks(high)
    for tick in ticks:
        _, y = place(1, 10.0**tick if log else tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT - label}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 5, y + 3, f"1e{tick}" if log else f"{tick:g}", anchor="end"))
    for tick in (1, count // 4, count // 2, 3 * count // 4, count):
        x, _ = place(tick, 10.0**floor if log else 0)
        parts.append(_text(x, HEIGHT - BOTTOM + 14, str(tick), anchor="middle"))
    middle = LEFT + (WIDTH - LEFT - RIGHT - label) / 2
    parts.append(_text(middle, HEIGHT - 8, across, anchor="middle"))
    parts.append(
        f'<text transform="translate(13 {(HEIGHT + TOP - BOTTOM) / 2:.0f}) rotate(-90)" font-size="10" '
        f'text-anchor="middle" fill="#333">{escape(up)}</text>'
    )
    ends = sorted((place(count, values[-1])[1], name) for name, values in series.items())
    heights: dict[str, float] = {}
    for y, name in ends:
        heights[name] = max([y + 3, *(height + 12 for height in heights.values())])
    beyond = max(0.0, max(heights.values()) - (HEIGHT - BOTTOM + 4))
    colours = dict(zip(series, (OURS, *OTHERS), strict=False))
    for name, values in reversed(series.items()):
        points = (place(evaluation, value) for evaluation, value in enumerate(values, start=1))
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        width = 2.6 if name == next(iter(series)) else 1.4
        parts.append(f'<path d="{path}" fill="none" stroke="{colours[name]}" stroke-width="{width}"/>')
        parts.append(_text(WIDTH - RIGHT - label + 6, heights[name] - beyond, name, colour=colours[name]))
    return _canvas(title, parts, about)


def _round_ticks(high: float) -> list[float]:
    """Round numbers from 0 to about the highest value."""
    step = 10.0 ** math.floor(math.log10(high))
    step = step if high / step >= 4 else step / 2 if high / step >= 2 else step / 5
    return [step * place for place in range(int(high / step) + 1)]


def bars(title: str, about: str, rows: Sequence[tuple[str, float, str, bool]]) -> str:
    """Draw bars with their numbers: name, length, what is written beside it, whether it is ours."""
    name_width = 150
    room = WIDTH - name_width - RIGHT - 112
    longest = max(length for _, length, _, _ in rows)
    each = (HEIGHT - TOP - 10) / len(rows)
    parts = []
    for place, (name, length, words, ours) in enumerate(rows):
        y, thick = TOP + each * place, min(each * 0.7, 22)
        parts.append(_text(name_width - 6, y + thick / 2 + 3.5, name, anchor="end"))
        width = max(room * length / longest, 1.0)
        colour = OURS if ours else "#b4b9bf"
        parts.append(f'<rect x="{name_width}" y="{y:.1f}" width="{width:.1f}" height="{thick:.1f}" fill="{colour}"/>')
        parts.append(_text(name_width + width + 5, y + thick / 2 + 3.5, words))
    return _canvas(title, parts, about)


def _profile() -> tuple[str, str]:
    """Figure 1: share of the constrained problems solved, over evaluations."""
    record = "paper/profile-constrained-strict.csv"
    found = columns(record)
    series = {NAMES[name]: [100 * value for value in found[name]] for name in NAMES}
    ours, published = series["pied"][-1], series["CUQB as published"][-1]
    table = next(each for each in tables("paper/paper.md", "Profiles: constrained") if each[0][0] == "solver")
    column = next(place for place, head in enumerate(table[0]) if head.startswith("paper's test"))
    looser = next(row[column] for row in table if row[0] == "`cuqb-paper`").split(" / ")[1]
    caption = (
        f"Constrained problems of the paper, solved to 1 % without a violation in the median of ten seeds: after 100 "
        f"evaluations {ours:g} % by `pied`, {published:g} % by the method as published ({looser} by the paper's own "
        f"test, which is looser). Record: {link(record)}; page: {link('paper/paper.md')}."
    )
    figure = lines("Constrained problems solved, %", caption, series, across="evaluations", up="solved, %", log=False)
    return figure, caption


def _regret() -> tuple[str, str]:
    """Figure 2: regret on the Williams-Otto reactor."""
    record = "paper/regret-williams-otto.csv"
    found = columns(record)
    series = {title: found[f"{name} median"] for name, title in NAMES.items()}
    rivals = {name: values[-1] for name, values in series.items() if name != "pied"}
    best = min(rivals, key=lambda name: rivals[name])
    caption = (
        f"Williams-Otto reactor: median penalized regret over ten seeds. After 100 evaluations `pied` is at "
        f"{series['pied'][-1]:.1e}, the best of the others shown ({best}) at {rivals[best]:.1e}. Record: "
        f"{link(record)}; page: "
        f"{link('paper/paper.md')}."
    )
    figure = lines("Williams-Otto: regret", caption, series, across="evaluations", up="median regret", log=True)
    return figure, caption


def _rivals() -> tuple[str, str]:
    """Figure 3: what knowing g is worth, on random problems."""
    table = tables("rivals.md", "On the draws")[0]
    column = table[0].index("to 1e-6")
    rows = [(row[0], leading(row[column]), row[column], row[0] == "default") for row in table[1:]]
    by_name = {name: words for name, _, words, _ in rows}
    caption = (
        f"Random problems of known optimum, three seeds, solved to 1e-6 within the budget: with g known "
        f"{by_name['default']}, the same "
        f"method with g folded into the black box {by_name['g folded into h']}. Grey bars change one "
        f"thing. Page: {link('rivals.md')}."
    )
    rows = [("pied" if ours else name, length, words, ours) for name, length, words, ours in rows]
    return bars("Random problems solved to 1e-6", caption, rows), caption


def _fresh() -> tuple[str, str]:
    """Figure 4: problems that nothing was developed on."""
    heads, row = tables("draws100.md", "On the draws")[0]
    shown = [(head, row[heads.index(head)]) for head in ("to 1e-3", "to 1e-4", "to 1e-6")]
    caption = (
        "A hundred random problems that nothing was developed on, one run each: "
        + ", ".join(f"{words} {head}" for head, words in shown)
        + f", in {row[heads.index('evaluations to 1e-4')].split()[0]} evaluations to 1e-4 in the median. "
        f"Page: {link('draws100.md')}."
    )
    return bars(
        "A hundred fresh problems", caption, [(head, leading(words), words, True) for head, words in shown]
    ), caption


def _verdicts() -> tuple[str, str]:
    """Figure 5: how soon a problem without a solution is recognized."""
    table = tables("infeasible.md", "Problems without a solution")[0]
    rows = []
    for name, initial, cell in table[1:]:
        rows.append((name, leading(cell), f"{leading(cell):g} ({initial} initial)", True))
    declared = [re.search(r"(\d+) of (\d+)", row[2]) for row in table[1:]]
    counts = [(int(each[1]), int(each[2])) for each in declared if each is not None]
    caption = (
        f"Problems without a solution: median evaluations until the verdict, with the random initial "
        f"design among them. Declared in "
        f"{sum(found for found, _ in counts)} of {sum(of for _, of in counts)} runs. Page: {link('infeasible.md')}."
    )
    return bars("Evaluations until 'infeasible'", caption, rows), caption


def _speed() -> tuple[str, str]:
    """Figure 6: time per suggestion against a loop written with BoTorch."""
    table = next(each for each in tables("suggest.md") if "times faster" in each[0])
    heads, *cases = table
    rows = []
    for row in cases:
        if row[heads.index("N")] == "50":
            ours, others = (leading(row[heads.index(head)]) for head in ("default", "reference"))
            rows.append((row[0], leading(row[-1]), f"{row[-1]}: {others:g} to {ours:g} ms", True))
    mean, worst = read(
        "suggest.md", r"\*\*([\d.]+)\*\* times faster in the geometric mean.*?, ([\d.]+) in the worst case"
    )
    caption = (
        f"How many times faster a suggestion is than with the same bound written in BoTorch, 50 points, "
        f"one thread. Over all "
        f"sizes: {mean} times in the geometric mean, {worst} times in the worst case. Page: {link('suggest.md')}."
    )
    return bars("Times faster than a BoTorch loop, N = 50", caption, rows), caption


FIGURES: dict[str, Callable[[], tuple[str, str]]] = {
    "solved": _profile,
    "reactor": _regret,
    "known-part": _rivals,
    "fresh": _fresh,
    "infeasible": _verdicts,
    "speed": _speed,
}


def rows() -> list[tuple[str, str, str]]:
    """The table: what was asked, what was found, where it is written."""
    suite = tables("suite100.md", "On the suite")[0]
    default = dict(zip(reversed(suite[0]), reversed(suite[1]), strict=True))  # of equal heads, the first
    feasible = read("verdicts.md", r"(\d+) tests of feasibility .*? in (\d+) runs: (\d+) called the problem infeasible")
    crowd = read("batches.md", r"(\d+) of (\d+) runs called infeasible")
    bounds = {row[1]: row for row in tables("verdicts.md", "Bounds at proposals")[0][1:] if row[0] == "`cuqb`"}
    gap = {row[1]: row for row in tables("verdicts.md", "The optimum and the gap")[0][1:] if row[0] == "`cuqb`"}
    black = {row[0].strip("`"): row for row in next(t for t in tables("black.md") if "strict, 1e-2" in t[0])[1:]}
    kills = dict(tables("crash.md", "Killed (-9) at random moments, torch-free workers, solver `random`")[0][1:])
    noise = next(t for t in tables("noise.md", "Williams-Otto, sigma = 0.01") if t[0][0] == "at")
    lemma = next(row for row in tables("guarantees.md", "Claims")[0] if row[0].startswith("Lemma 1"))
    startup = {row[0].strip("`"): row for row in tables("startup.md")[0][1:]}
    ratio = next(row[2] for row in noise[1:] if row[0] == "100")
    return [
        ("The paper's 22 problems solved to 1e-6 in 100 evaluations, ten seeds", default["to 1e-6"], "suite100.md"),
        ("Evaluations to 1e-4 on them: median (quartiles)", default["evaluations to 1e-4"], "suite100.md"),
        (
            "Feasible problems called infeasible, one trial at a time",
            f"{feasible[2]} of {feasible[1]} runs",
            "verdicts.md",
        ),
        ("The same with four or eight trials pending and failures", f"{crowd[0]} of {crowd[1]} runs", "batches.md"),
        (
            "Truth inside the 90 % bounds at proposals: random problems, suite",
            f"{bounds['draws'][3]}, {bounds['suite'][3]}; or within 1e-6 of the scale: "
            f"{bounds['draws'][4]}, {bounds['suite'][4]}",
            "verdicts.md",
        ),
        (
            "Optimum not above recommended value plus gap: random problems, suite",
            f"{gap['draws'][3]}, {gap['suite'][3]}; or within 1e-6 of the spread: {gap['draws'][4]}, {gap['suite'][4]}",
            "verdicts.md",
        ),
        (
            "Noise on the reactor: loss against the paper's rule and search, 100 evaluations",
            f"{ratio} times",
            "noise.md",
        ),
        ("All bounds hold with the levels of Lemma 1 (promised: at least 0.9)", lemma[2], "guarantees.md"),
        (
            "Without a known part, problems solved to 1e-4 of 21: `cuqb`, `eic`, `epbo`",
            ", ".join(black[name][4] for name in ("cuqb", "eic", "epbo")),
            "black.md",
        ),
        ("Results lost in kills at random moments", f"{kills['lost']} in {kills['kills']} kills", "crash.md"),
        (
            "Processor time of `pied check`, of `pied ask`",
            f"{startup['check'][1]} s, {startup['ask'][1]} s",
            "startup.md",
        ),
    ]


def page() -> dict[Path, str]:
    """The page and its figures by file."""
    written: dict[Path, str] = {}
    body = [
        "# Evidence at a glance",
        "",
        "Six figures and one table, made by `python benchmarks/evidence.py` from the pages under `benchmarks/results`.",
        "Each page has the command, the version, the seeds and the machine; no result here was typed by hand. What",
        "does not favour `pied` is in the table as well.",
        "",
    ]
    for name, make in FIGURES.items():
        figure, caption = make()
        figure = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", figure)
        written[DOCS / "evidence" / f"{name}.svg"] = figure
        body += [f"![{name}](evidence/{name}.svg)", "", caption, ""]
    body += ["## In numbers", "", "| what | found | page |", "| --- | --- | --- |"]
    body += [f"| {what} | {found} | {link(where)} |" for what, found, where in rows()]
    body += [
        "",
        "Not shown yet: whole runs against BoTorch, Ax, Optuna (`benchmarks/loops.py`): no page yet.",
        "",
    ]
    written[DOCS / "evidence.md"] = "\n".join(body)
    return written


def main() -> None:
    """Write the files, or say which of them are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is out of date")
    check = parser.parse_args().check
    stale = [path for path, text in page().items() if not path.exists() or path.read_text() != text]
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"{names}: out of date; run `python benchmarks/evidence.py`")
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(page()[path])


if __name__ == "__main__":
    main()
