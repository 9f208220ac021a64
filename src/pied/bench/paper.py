"""The paper's experiments: their plan, full or quick, and every figure."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy import ndarray

from pied import suite
from pied.bench import figures, illustrate, measures, pages, profiles
from pied.bench.curves import Curve, Grid, grid, load
from pied.bench.ledger import Ledger
from pied.bench.plan import Part, Plan, PlannedSolver
from pied.errors import SettingError
from pied.solvers.cuqb import CUQB

logger = logging.getLogger(__name__)

TOLERANCE = 0.01
"""tau of the paper's profiles."""
PAPER_SOLVERS = (
    "cuqb-paper", "eic-cf-paper", "eic-paper", "epbo-paper", "snobfit-paper", "direct-paper", "bobyqa-paper",
    "cma-es-paper",
)  # fmt: skip
"""The paper's eight solvers, in the paper's form."""
OURS = PlannedSolver("cuqb", "cuqb", {"structure": "full", "knows": "white"})
"""The default solver, given all structure."""
SCRIPTS = PlannedSolver("merit-quantile-paper", "merit-quantile-paper")
"""The rule of the authors' scripts, which differs from the paper's where there are constraints."""
LEVELS = (0.75, 0.85, 0.95)
DESIGNS = ("d+1", "2d+1", "3d+1")
NOISES = (0.01, 0.05)
QUICK = {
    "unconstrained": ("booth", "wolfe", "rastrigin"),
    "constrained": ("bazaraa", "ex314", "rosen-suzuki"),
    "levels": ("booth", "wolfe"),
}
"""Problems of the quick version."""


def plan(quick: bool = False) -> Plan:
    """Return the paper's experiments.

    Ten seeds and 100 evaluations; `structure="paper"` for the eight solvers, 'full' for ours. The eight know nothing of
    white constraints: each is learned, and the initial design is uniform over the box. No solver stops with a
    verdict of infeasibility, because all problems are feasible. DIRECT, whose first point is the centre of the box,
    gets another box where that is the optimum, as in the authors' code.

    Args:
        quick: Two seeds, 14 evaluations, three problems of each set.
    """
    seeds = tuple(range(2 if quick else 10))
    settings = {"budget": 14 if quick else 100, "structure": "paper", "knows": "nothing", "patience": None}
    own = {"direct-paper": {"shifted": True}}
    exact = (OURS, *(PlannedSolver(name, name, own.get(name, {})) for name in PAPER_SOLVERS))
    noisy = (
        replace(OURS, settings={**OURS.settings, "rules": ("naive", "anywhere")}),
        *(PlannedSolver(name, name, {"rules": ("naive", "asked")}) for name in PAPER_SOLVERS),
    )
    levels = tuple(
        PlannedSolver(
            label_of(level, design), "cuqb-paper" + ("" if level == 0.95 else f":level={level}"), {"initial": design}
        )
        for level in LEVELS for design in DESIGNS
    )  # fmt: skip
    sets = {name: QUICK[name] if quick else suite.sets[name] for name in ("unconstrained", "constrained")}
    limited = (*exact, SCRIPTS)
    return Plan((
        Part("unconstrained", sets["unconstrained"], exact, seeds, settings),
        Part("constrained", sets["constrained"], limited, seeds, settings),
        Part("williams-otto", ("williams-otto",), limited, seeds, settings),
        Part("environmental", ("environmental",), exact, seeds, settings),
        *(Part(f"noise-{noise}", ("williams-otto",), noisy, seeds, {**settings, "noise": noise}) for noise in NOISES),
        Part("levels", QUICK["levels"] if quick else suite.sets["unconstrained"], levels, seeds, settings),
    ))  # fmt: skip


def label_of(level: float, design: str) -> str:
    """Return the label of one combination of level and design; the paper's choice has its solver's name."""
    return "cuqb-paper" if (level, design) == (0.95, "2d+1") else f"cuqb-paper, p = {level}, T0 = {design}"


# --- Figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The store, the plan, and the folder of the figures."""

    store: Path
    folder: Path
    plan: Plan
    workers: int

    def curves(self, part: Part) -> list[Curve]:
        """Return the curves of a part's performed tasks."""
        return load(self.store, part.tasks(), workers=self.workers)

    def grid(self, name: str) -> Grid | None:
        """Return the curves of a part as a grid; None while no seed is complete."""
        part = self.plan.part(name)
        curves = self.curves(part)
        if not curves:
            return None
        titles = [task.title for task in part.tasks()]
        order = sorted(dict.fromkeys(titles), key=lambda title: part.problems.index(title.partition(",")[0]))
        try:
            return grid(curves, [entry.label for entry in part.entries], order)
        except SettingError as error:
            logger.warning("part '%s' is left out: %s", name, error)
            return None


def write(store: str | Path, folder: str | Path, *, quick: bool = False, workers: int = 1) -> str:
    """Draw every figure and write the page `paper.md`, pictures and curves into a folder; return the page."""
    made = Report(Path(store), Path(folder), plan(quick), workers)
    made.folder.mkdir(parents=True, exist_ok=True)
    with Ledger(store) as ledger:
        names = {task.name for task in made.plan.tasks()}
        entries = [entry for name, entry in ledger.entries().items() if name in names]
    load(store, made.plan.tasks(), workers=workers)  # all at once, in parallel
    command = "pied bench paper --quick" if quick else "pied bench paper"
    title = "The paper, in small (quick: no claim rests on it)" if quick else "The paper"
    blocks = [pages.heading(title, entries, command), *_illustrations(made.folder)]
    blocks += _levels(made)
    for name in ("unconstrained", "constrained"):
        blocks += _profiles(made, name)
    blocks += _regrets(made)
    failed = pages.failures(entries)
    blocks += ["## Runs that failed", failed] if failed else []
    text = "\n\n".join(blocks) + "\n"
    (made.folder / "paper.md").write_text(text)
    return text


def _illustrations(folder: Path) -> list[str]:
    """Draw figures 1, 2 and 3."""
    shown, found = illustrate.line(), illustrate.estimates()
    published, ours = CUQB.paper(), CUQB()
    sorting = replace(published, believer=replace(published.believer, estimator=ours.believer.estimator))
    regions = {
        "paper's models, plain order statistics": illustrate.islands(sorting),
        "paper's models, soft sort as published": illustrate.islands(published),
        "our models and estimator": illustrate.islands(ours),
    }
    region = next(iter(regions.values()))
    _draw_line(shown, folder / "illustration-acquisitions")
    _draw_islands(region, folder / "illustration-regions")
    _draw_estimates(found, folder / "quantile-estimates")
    first = pages.table(
        ["acquisition", "maximizer to nearest optimum", "95 % interval of f: mean width", "holds the truth"],
        [
            [name, f"{shown.distance(name):.3f}", f"{shown.width(view):.2f}", f"{shown.covers(view):.0%}"]
            for name, view in (("COBALT", "hybrid"), ("UQB", "hybrid"), ("EI", "black"), ("UCB", "black"))
        ],
    )
    second = pages.table(
        ["part of the true region held / part of the box", *region.predicted],
        [["truth", *([f"100% / {region.truth.mean():.1%}"] * len(region.predicted))]]
        + [
            [kind, *(f"{r.covered(name):.0%} / {r.size(name):.0%}" for name in r.predicted)]
            for kind, r in regions.items()
        ],
    )
    third = pages.table(
        ["level", *(f"L = {L}: deviation / right maximizer" for L in found.samples)],
        [
            [level, *(f"{found.deviation(i, j):.1%} / {found.maximizers(i, j):.0%}" for j in range(len(found.samples)))]
            for i, level in enumerate(found.levels)
        ],
    )
    return [
        "## Illustration: posteriors and acquisition functions", first,
        "## Illustration: predicted feasible regions", second,
        "## Quantile estimates (ten replicates)", third,
    ]  # fmt: skip


def _levels(made: Report) -> list[str]:
    """Draw the 3 x 3 study of initial design and level, one panel per level."""
    side = made.grid("levels")
    if side is None:
        return []
    times = profiles.paper_times(side.values(), side.starts(), TOLERANCE)
    curves = profiles.profile(times, side.budget)
    figure, axes = figures.panels(1, len(LEVELS))
    for column, level in enumerate(LEVELS):
        made_of = {design: label_of(level, design) for design in DESIGNS if label_of(level, design) in side.solvers}
        rows = [side.solvers.index(label) for label in made_of.values()]
        figures.draw_profile(axes[0, column], [f"T0 = {d}" for d in made_of], curves[rows], title=f"level {level}")
    figures.legend(figure, axes[0, 0])
    figures.save(figure, made.folder / "levels")
    pages.write_curves(made.folder / "levels.csv", side.solvers, curves)
    return ["## Initial design and level", _seeds(side), pages.solved_table(side)]


def _profiles(made: Report, name: str) -> list[str]:
    """Draw the profiles of a set: the paper's, the strict one, and the data profile."""
    side = made.grid(name)
    if side is None:
        return []
    length = side.budget
    paper, eight = pages.among(side, side.solvers, TOLERANCE), pages.among(side, PAPER_SOLVERS, TOLERANCE)
    strict_times = profiles.strict_times(side.strict(), TOLERANCE)
    strict = profiles.profile(strict_times, length)
    shown = {
        f"paper's test among its eight, tau = {TOLERANCE}": eight,
        f"paper's test among all, tau = {TOLERANCE}": paper,
        f"strictly feasible, known optimum, {TOLERANCE}": strict,
    }
    figures.profile_figure(side.solvers, shown, made.folder / f"profile-{name}")
    groups = np.linspace(0.0, length / (float(side.dimensions.min()) + 1.0), 101)
    figure, axes = figures.panels(1, 1)
    data = profiles.data_profile(strict_times, side.dimensions, groups)
    figures.draw_profile(
        axes[0, 0], side.solvers, data, across=groups, unit="groups of d + 1 evaluations", title="data profile, strict"
    )
    figures.legend(figure, axes[0, 0])
    figures.save(figure, made.folder / f"data-profile-{name}")
    for kind, curves in (("paper-eight", eight), ("paper-all", paper), ("strict", strict)):
        pages.write_curves(made.folder / f"profile-{name}-{kind}.csv", side.solvers, curves)
    tables = [pages.solved_table(side, some=PAPER_SOLVERS), pages.evaluations_table(side)]
    blocks = [f"## Profiles: {name}", _seeds(side), *tables]
    if OURS.label in side.solvers:  # false if only a part of the plan was run
        compared = pages.comparison_table(pages.comparisons(side, OURS.label), OURS.label)
        blocks += ["Paired over seeds, final strictly feasible regret:", compared]
    return blocks


def _regrets(made: Report) -> list[str]:
    """Draw regret curves of the two applied problems."""
    blocks: list[str] = []
    horizons = (20, 50, 100) if made.plan.tasks()[0].budget >= 50 else (10, 14)
    for name, title in (("environmental", "Environmental model"), ("williams-otto", "Williams-Otto, no noise")):
        side = made.grid(name)
        if side is None:
            continue
        regrets = side.simple()
        figures.regret_figure(side.solvers, {title: regrets[:, 0]}, made.folder / f"regret-{name}")
        _keep_medians(made.folder / f"regret-{name}.csv", side, regrets)
        blocks += [f"## {title}: simple penalized regret", _seeds(side), pages.regret_table(side, regrets, horizons)]
    panels: dict[str, ndarray] = {}
    solvers: tuple[str, ...] = ()
    for noise in NOISES:
        side = made.grid(f"noise-{noise}")
        if side is None:
            continue
        solvers = side.solvers
        for kind in ("naive", "proposed"):
            regrets = proposed(side) if kind == "proposed" else side.simple("naive")
            title = f"sigma = {noise}, {kind} recommender"
            panels[title] = regrets[:, 0]
            _keep_medians(made.folder / f"regret-noise-{noise}-{kind}.csv", side, regrets)
            blocks += [f"## Williams-Otto, {title}", _seeds(side), pages.regret_table(side, regrets, horizons)]
    if panels:
        figures.regret_figure(solvers, panels, made.folder / "regret-noise")
    return blocks


def proposed(side: Grid) -> ndarray:
    """Return the penalized regret of each solver's own rule: the paper's for its solvers, ours for ours."""
    own = [next(rule for rule in _rules(side, solver) if rule != "naive") for solver in side.solvers]
    by_rule = {rule: _some(side, [w for w, o in zip(side.solvers, own, strict=True) if o == rule]) for rule in own}
    rows = {rule: dict(zip(part.solvers, part.simple(rule), strict=True)) for rule, part in by_rule.items()}
    return np.stack([rows[rule][solver] for solver, rule in zip(side.solvers, own, strict=True)])


def _rules(side: Grid, solver: str) -> tuple[str, ...]:
    return next(curve.task.rules for (name, _, _), curve in side.curves.items() if name == solver)


def _some(side: Grid, solvers: Sequence[str]) -> Grid:
    return replace(side, solvers=tuple(solvers), curves={k: c for k, c in side.curves.items() if k[0] in solvers})


def _seeds(side: Grid) -> str:
    missing = f"; seeds {list(side.dropped)} are not complete and are left out" if side.dropped else ""
    return f"Problems: {len(side.problems)}; seeds: {len(side.seeds)}; evaluations: {side.budget}{missing}."


def _keep_medians(file: Path, side: Grid, regrets: ndarray) -> None:
    bands = [measures.quartiles(regrets[w, 0]) for w in range(len(side.solvers))]
    names = [f"{solver} {word}" for solver in side.solvers for word in ("lower quartile", "median", "upper quartile")]
    pages.write_curves(file, names, np.array([curve for band in bands for curve in band]), digits=4)


# --- Drawing the illustrations ----------------------------------------------------------------------------------------


def _draw_line(shown: illustrate.Line, file: Path) -> None:
    figure, axes = figures.panels(4, 2, width=4.2, height=2.2)
    blue, orange = figures.COLOURS[0], figures.COLOURS[1]

    def band(place: tuple[int, int], title: str, quantiles: ndarray, truth: ndarray) -> None:
        each = axes[place]
        each.fill_between(shown.x, quantiles[0], quantiles[2], color=blue, alpha=0.2, linewidth=0, label="95 %")
        each.plot(shown.x, quantiles[1], color=blue, label="median")
        each.plot(shown.x, truth, color="black", linestyle=":", label="truth")
        at = np.interp(shown.told, shown.x, truth)
        each.plot(shown.told, at, "o", color="black", markersize=4, label="evaluated")
        each.set_title(title, fontsize="medium")

    band((0, 0), "posterior of h (hybrid)", shown.h_band, shown.h)
    axes[0, 1].plot(shown.x, shown.f, color="black", linestyle=":", label="truth")
    axes[0, 1].set_title("f = h^2", fontsize="medium")
    band((1, 0), "implied posterior of f", shown.hybrid, shown.f)
    band((1, 1), "posterior of f (black box)", shown.black, shown.f)
    for place, name in (((2, 0), "COBALT"), ((2, 1), "EI"), ((3, 0), "UQB"), ((3, 1), "UCB")):
        curve = shown.acquisitions[name]
        axes[place].plot(shown.x, curve, color=orange)
        axes[place].axvline(shown.x[int(np.argmax(curve))], color=orange, linestyle="--", linewidth=1)
        axes[place].set_title(f"{name}: acquisition", fontsize="medium")
    figures.legend(figure, axes[0, 0], 4)
    figures.save(figure, file)


def _draw_islands(region: illustrate.Islands, file: Path) -> None:
    figure, axes = figures.panels(2, 2, width=3.4, height=3.2)
    shown = {"truth": region.truth, **region.predicted}
    for each, (name, inside) in zip(axes.flat, shown.items(), strict=True):
        each.grid(visible=False)
        each.contourf(region.x1, region.x2, inside, levels=[0.5, 1.5], colors=[figures.COLOURS[1]], alpha=0.55)
        each.contour(region.x1, region.x2, region.truth, levels=[0.5], colors="black", linewidths=1.2)
        each.plot(*region.told.T, "o", color=figures.COLOURS[0], markersize=3)
        each.set_title(f"{name}: predicted feasible" if name != "truth" else "true feasible region", fontsize="medium")
    figures.save(figure, file)


def _draw_estimates(found: illustrate.Estimates, file: Path) -> None:
    figure, axes = figures.panels(len(found.levels), len(found.samples), width=3.2, height=2.2)
    for i, level in enumerate(found.levels):
        for j, samples in enumerate(found.samples):
            axes[i, j].plot(found.x, found.curves[i, j].T, color=figures.COLOURS[0], linewidth=0.7, alpha=0.7)
            axes[i, j].plot(found.x, found.exact[i], color="black", linewidth=1.4, linestyle="--")
            axes[i, j].set_title(f"level {level}, L = {samples}", fontsize="medium")
    figures.save(figure, file)
