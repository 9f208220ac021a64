"""Write docs/evidence.md: six figures and one table from the pages and records under benchmarks/results.

The table by kind of problem in docs/guarantees.md and the tables of docs/reproduction.md are written, too.

Every number is read from a result page, none is typed here, so the page cannot say what was not measured:

    python benchmarks/evidence.py            # writes docs/evidence.md and docs/evidence/*.svg
    python benchmarks/evidence.py --check    # fails if they are out of date
"""

import argparse
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from drawing import bars, lines
from evidence_losses import losses
from evidence_paper import filled
from records import (
    DOCS,
    ROOT,
    SAID,
    bounds_by_kind,
    columns,
    kinds,
    leading,
    limits_that_hold,
    link,
    read,
    solved_by_peers,
    tables,
)

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
LOOPS = {
    "pied": "pied",
    "botorch": "BoTorch, composite",
    "ax": "Ax",
    "optuna-gp": "Optuna, Gaussian process",
    "optuna-tpe": "Optuna, TPE",
    "optuna-nsga2": "Optuna, NSGA-II",
    "random": "random search",
}
"""What loops of other libraries are called in the figures."""


# --- Six figures ------------------------------------------------------------------------------------------------------


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
        f"**The paper's problems.** Solved to 1 % without a violation after 100 evaluations: {ours:g} % by `pied`, "
        f"{published:g} % by the method as published ({looser} by the paper's own, looser test). Median of ten seeds. "
        f"{link(record)}, {link('paper/paper.md')}."
    )
    figure = lines("Constrained problems solved, %", caption, series, across="evaluations", up="solved, %", log=False)
    return figure, caption


def _rivals() -> tuple[str, str]:
    """Figure 2: what knowing g is worth, on random problems."""
    table = tables("rivals.md", "On the draws")[0]
    column = table[0].index("to 1e-6")
    rows = [(row[0], leading(row[column]), row[column], row[0] == "default") for row in table[1:]]
    by_name = {name: words for name, _, words, _ in rows}
    caption = (
        f"**What the known part is worth.** Random problems solved to 1e-6: {by_name['default']}; the same method "
        f"that is not told the formula: {by_name['g folded into h']}. Grey bars change one thing. Three seeds. "
        f"{link('rivals.md')}."
    )
    rows = [("pied" if ours else name, length, words, ours) for name, length, words, ours in rows]
    return bars("Random problems solved to 1e-6", caption, rows), caption


def _mixed() -> tuple[str, str]:
    """Figure 3: integers, choices and mixtures."""
    heads, *found = tables("mixed.md", "All problems of the set")[0]
    column, of = heads.index("solved to 0.001"), heads.index("problems with 90%")
    rows = [(LOOPS.get(row[0], row[0]), leading(row[column]), row[column], row[0] == "pied") for row in found]
    fresh_heads, fresh = tables("mixed.md", "Fresh draws")[0]
    caption = (
        f"**Integers, choices, mixtures.** Runs that came within 1e-3 on {found[0][of].split()[-1]} engineering "
        f"problems; on {fresh[of].split()[-1]} random ones that nothing was developed on, `pied`: "
        f"{fresh[fresh_heads.index('solved to 0.001')]}. {link('mixed.md')}."
    )
    return bars("Mixed problems: runs solved to 1e-3", caption, rows), caption


def _fronts() -> tuple[str, str]:
    """Figure 4: several objectives."""
    heading = "Hypervolume still missing after 100 evaluations (median of the seeds)"
    heads, *found = tables("fronts.md", heading)[0]
    problems = [row for row in found if row[0] != "pied ahead"]
    missing = {
        name: statistics.median(leading(row[place].strip("*")) for row in problems)
        for place, name in enumerate(heads[1:], 1)
        if not any(row[place] == "-" or "(at" in row[place] for row in problems)  # all of its runs were finished
    }
    rows = [(LOOPS.get(name, name), value, f"{value:.1f} %", name == "pied") for name, value in missing.items()]
    caption = (
        f"**Two objectives.** Part of the front's hypervolume still missing after 100 evaluations, median of "
        f"{len(problems)} problems, three seeds; less is better. {link('fronts.md')}."
    )
    return bars("Front still missing, %", caption, rows), caption


def _verdicts() -> tuple[str, str]:
    """Figure 5: how soon a problem without a solution is recognized."""
    table = tables("infeasible.md", "Problems without a solution")[0]
    rows = []
    for name, initial, cell in table[1:]:
        rows.append((name, leading(cell), f"{leading(cell):g} ({initial} initial)", True))
    declared = [re.search(r"(\d+) of (\d+)", row[2]) for row in table[1:]]
    counts = [(int(each[1]), int(each[2])) for each in declared if each is not None]
    caption = (
        f"**Limits that cannot be met.** Median evaluations until `pied` says so, initial design included; said in "
        f"{sum(found for found, _ in counts)} of {sum(of for _, of in counts)} exact runs. "
        f"{link('infeasible.md')}."
    )
    return bars("Evaluations until 'infeasible'", caption, rows), caption


def _honesty() -> tuple[str, str]:
    """Figure 6: how often 90 % bounds hold, by kind of problem, with noise."""
    covered = bounds_by_kind("constant")
    rows = [(kind, value, f"{100 * value:.0f} %", value >= SAID) for kind, value in covered.items()]
    short = [kind for kind, value in covered.items() if value < SAID]
    caption = (
        f"**Are the bounds honest?** How often the true objective and limits lie in their {100 * SAID:.0f} % "
        f"bounds at proposals, with noise, by kind of problem. {len(short)} of {len(covered)} kinds fall short (grey). "
        f"{link('honesty.md')}."
    )
    mark = (SAID, f"said: {100 * SAID:.0f} %")
    return bars("Bounds that hold, by kind of problem", caption, rows, mark=mark), caption


KIND_HEADS = [
    "problems",
    "outputs as measured",
    "objective and limits",
    "at recommendations, noisy",
    "gap covers, or is not told",
    "gap told at the end",
]
MARKS = ("<!-- kinds: begin -->", "<!-- kinds: end -->")

FIGURES: dict[str, Callable[[], tuple[str, str]]] = {
    "solved": _profile,
    "known-part": _rivals,
    "mixed": _mixed,
    "fronts": _fronts,
    "infeasible": _verdicts,
    "honesty": _honesty,
}


# --- One table --------------------------------------------------------------------------------------------------------


def rows() -> list[tuple[str, str, str]]:
    """The table: what was asked, what was found, where it is written."""
    suite = tables("suite100.md", "On the suite")[0]
    default = dict(zip(reversed(suite[0]), reversed(suite[1]), strict=True))  # of equal heads, the first
    reactor = columns("paper/regret-williams-otto.csv")
    rivals = {title: reactor[f"{name} median"][-1] for name, title in NAMES.items()}
    best = min((name for name in rivals if name != "pied"), key=lambda name: rivals[name])
    fresh_heads, fresh = tables("draws100.md", "On the draws")[0]
    feasible = read("verdicts.md", r"(\d+) tests of feasibility .*? in (\d+) runs: (\d+) called the problem infeasible")
    crowd = read("batches.md", r"(\d+) of (\d+) runs called infeasible")
    kills = dict(tables("crash.md", "Killed (-9) at random moments, torch-free workers, solver `random`")[0][1:])
    noise = next(t for t in tables("noise.md", "Williams-Otto, sigma = 0.01") if t[0][0] == "at")
    ratio = next(row[2] for row in noise[1:] if row[0] == "100")
    lemma = next(row for row in tables("guarantees.md", "Claims")[0] if row[0].startswith("Lemma 1"))
    startup = {row[0].strip("`"): row for row in tables("startup.md")[0][1:]}
    mean, worst = (leading(row[2]) for row in tables("loops.md", "Targets")[0][1:3])
    return [
        ("The paper's 22 problems solved to 1e-6 in 100 evaluations", default["to 1e-6"], "suite100.md"),
        ("Evaluations to 1e-4 on them: median (quartiles)", default["evaluations to 1e-4"], "suite100.md"),
        (
            "Williams-Otto reactor, median regret after 100 evaluations",
            f"{rivals['pied']:.0e}; the best other of the paper ({best}): {rivals[best]:.0e}",
            "paper/regret-williams-otto.csv",
        ),
        (
            "A hundred fresh random problems solved to 1e-6",
            f"{fresh[fresh_heads.index('to 1e-6')]}, to 1e-4 in {fresh[fresh_heads.index('evaluations to 1e-4')]}",
            "draws100.md",
        ),
        ("The same five problems in six libraries, solved to 1e-6", solved_by_peers(1e-6), "peers.json"),
        ("Simulators drawn at random: per cent above the best known after 40", _simulators(), "simulators.md"),
        ("Feasible problems called infeasible", f"{feasible[2]} of {feasible[1]} runs", "verdicts.md"),
        ("The same with 4 or 8 trials pending, and failures", f"{crowd[0]} of {crowd[1]} runs", "batches.md"),
        ("Limits said to hold with 93 to 97 %, at noisy recommendations", limits_that_hold(), "honesty.md"),
        ("All bounds hold with the levels of Lemma 1 (promised: 0.9)", lemma[2], "guarantees.md"),
        ("Noise on the reactor: loss, as part of that of the paper's rule", f"{ratio} times", "noise.md"),
        (
            "Seconds per suggestion: how many times faster than BoTorch's loop",
            f"{mean:g}; worst case {worst:g}",
            "loops.md",
        ),
        ("Results lost when killed at random moments", f"{kills['lost']} in {kills['kills']} kills", "crash.md"),
        (
            "Processor time of `pied check`, of `pied ask`",
            f"{startup['check'][1]} s, {startup['ask'][1]} s",
            "startup.md",
        ),
    ]


def _simulators() -> str:
    """How far `pied` and Optuna's GP sampler end from the best known, by kind of simulator."""
    heads, *found = tables("simulators.md")[0]
    last = {(row[0], row[1]): leading(row[heads.index("after 40")]) for row in found}
    kinds = dict.fromkeys(kind for kind, _ in last)
    return "; ".join(f"{kind} {last[kind, 'pied']:.2g}, Optuna's GP {last[kind, 'Optuna GP']:.2g}" for kind in kinds)


# --- The page ---------------------------------------------------------------------------------------------------------


def _side_by_side(captions: dict[str, str]) -> list[str]:
    """Figures in two columns, each above its caption."""
    names = list(captions)
    written = ["| | |", "| --- | --- |"]
    for left, right in zip(names[::2], names[1::2], strict=True):
        written.append(f"| ![{left}](evidence/{left}.svg) | ![{right}](evidence/{right}.svg) |")
        written.append(f"| {captions[left]} | {captions[right]} |")
    return written


def page() -> dict[Path, str]:
    """The page and its figures by file."""
    written: dict[Path, str] = {}
    body = [
        "# Evidence at a glance",
        "",
        "Six figures, one table, and where `pied` loses. `python benchmarks/evidence.py` makes this page from the",
        "records under `benchmarks/results`; no result is typed by hand. Each record says with which version, command",
        "and machine it was made; some are of older code.",
        "",
    ]
    drawn = {name: make() for name, make in FIGURES.items()}
    for name, (figure, _) in drawn.items():
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", figure).replace("**", "")
        written[DOCS / "evidence" / f"{name}.svg"] = plain.replace("`", "")
    body += _side_by_side({name: caption for name, (_, caption) in drawn.items()})
    body += ["", "## In numbers", "", "| what | found | record |", "| --- | --- | --- |"]
    found = rows()
    body += [f"| {what} | {answer} | {link(where)} |" for what, answer, where in found]
    lost = losses()
    body += ["", "## Where `pied` loses", ""]
    body += [f"- {sentence} {link(where)}." for sentence, where in lost]
    written[DOCS / "evidence.md"] = "\n".join([*body, ""])
    written[DOCS / "reproduction.md"] = filled((DOCS / "reproduction.md").read_text())
    written[DOCS / "guarantees.md"] = _with_kinds((DOCS / "guarantees.md").read_text())
    return written


def _with_kinds(text: str) -> str:
    """The page of guarantees with its table of what held."""
    begin, end = MARKS
    before, rest = text.split(begin)
    lines_of = ["| " + " | ".join(row) + " |" for row in (KIND_HEADS, ["---"] * len(KIND_HEADS), *kinds())]
    return "\n".join([before + begin, *lines_of, end + rest.split(end)[1]])


def main() -> None:
    """Write the files, or say which of them are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is out of date")
    check = parser.parse_args().check
    made = page()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"{names}: out of date; run `python benchmarks/evidence.py`")
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])


if __name__ == "__main__":
    main()
