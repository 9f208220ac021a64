"""Where pied loses: each sentence is made of the records, and disappears from the page when it is no longer true."""

import math
import re
import statistics

from records import (
    PEERS,
    SAID,
    best_regret,
    bounds_by_kind,
    count,
    evaluations,
    honesty,
    leading,
    peer_problems,
    tables,
)

FAR = 0.85
"""A kind of problem whose bounds of 0.9 hold less often than this is named."""

NEGLIGIBLE = 1e-6
"""A regret below which nobody ends closer."""


def losses() -> list[tuple[str, str]]:
    """Sentences with the page that has the numbers."""
    found = (
        _noise(),
        _rough_kinds(),
        _plants(),
        _charging(),
        _stops(),
        _unseen_verdicts(),
        _seconds(),
        _nothing_known(),
        _mixed(),
        _fronts(),
        _peers(),
        _startup(),
    )
    return [each for each in found if each is not None]


def _noise() -> tuple[str, str] | None:
    """Runs with noise in which BoTorch's loop came close sooner."""
    heads, *rows = tables("loops.md", "Evaluations to a normalized regret of 0.001 / of 1e-06 / the last regret")[0]
    lost, of = [], 0
    for row in rows:
        ours, theirs = (row[heads.index(name)].split(" / ")[0] for name in ("pied", "botorch"))
        if row[1] == "noisy" and theirs != "-":
            of += 1
            if _evaluations(theirs) < _evaluations(ours):
                lost.append(f"{row[0]} ({theirs} evaluations, `pied` {ours})")
    if not lost:
        return None
    return (
        f"**Noise.** BoTorch's loop comes within 1e-3 sooner in {len(lost)} of {of} noisy runs of one seed: "
        f"{', '.join(lost)}."
    ), "loops.md"


def _evaluations(cell: str) -> float:
    return math.inf if cell == "never" else leading(cell)


def _rough_kinds() -> tuple[str, str] | None:
    """Kinds of problems whose bounds are too narrow, and rough ones that are not solved."""
    short = [f"{kind} {100 * part:.0f} %" for kind, part in bounds_by_kind("constant").items() if part < FAR]
    rows = {r["noise"]: r["to 1e-03"] for r in honesty("wrong stops") if r["set"] == "rough" and "all" in r["kind"]}
    named = f"{100 * SAID:.0f} % bounds hold too seldom with noise on {', '.join(short)}. " if short else ""
    return (
        f"**Jumps, kinks, ridges, narrow peaks.** {named}Rough problems are solved to 1e-3 in {rows['exact']} runs "
        f"without noise, in {rows['constant']} with it."
    ), "honesty.md"


def _plants() -> tuple[str, str] | None:
    """Plants with rough outputs that were written without looking at the method."""
    row = next(row for row in honesty("wrong stops", "Sixteen plants") if row["kind"] == "**all**")
    near, of = count(row["to 1e-02"])
    if near == of:
        return None
    return (
        f"**Rough plants written without looking at the method.** {near} of {of} runs on them end within 1e-2 of the "
        f"optimum, {row['to 1e-04']} within 1e-4: fewer than of the rough problems it was developed with."
    ), "honesty.md"


def _charging() -> tuple[str, str] | None:
    """A real simulator with kinks on which Optuna's GP ends lower."""
    last = {row[0]: [float(cell) for cell in row[2:]] for row in tables("charging.md")[0][1:] if row[1] == "40"}
    ours, theirs = last["pied"], last["Optuna GP"]
    lost = sum(other < own for own, other in zip(ours, theirs, strict=True))
    if not lost:
        return None
    middle, worst = ([find(each) for each in (ours, theirs)] for find in (statistics.median, max))
    return (
        f"**Kinks in five dimensions.** Optuna's GP sampler charges a simulated battery faster in {lost} of "
        f"{len(ours)} runs of 40 simulations: median {middle[1]:.1f} minutes, worst {worst[1]:.1f}; `pied` "
        f"{middle[0]:.1f} and {worst[0]:.1f}."
    ), "charging.md"


def _stops() -> tuple[str, str] | None:
    """Stops that were not justified."""
    rows = [row for row in honesty("wrong stops") if "all" in row["kind"]]
    wrong, of = (sum(part) for part in zip(*(count(row["wrong stops"]) for row in rows), strict=True))
    if not wrong:
        return None
    return (
        f"**Stopping.** Of {of} stops at a stated gap of 1e-3, {wrong} were wrong: more than that was left to gain."
    ), "honesty.md"


def _unseen_verdicts() -> tuple[str, str] | None:
    """Problems without a solution that are not recognized."""
    counts = {"exact": [0, 0], "constant": [0, 0]}
    for row in honesty("declared", "Impossible limits"):
        for place, number in enumerate(count(row["declared"])):
            counts[row["noise"]][place] += number
    if counts["constant"][0] == counts["constant"][1]:
        return None
    return (
        f"**Verdicts on rough problems.** Problems without a feasible point are recognized in "
        f"{counts['exact'][0]} of {counts['exact'][1]} runs without noise, in {counts['constant'][0]} of "
        f"{counts['constant'][1]} with noise."
    ), "honesty.md"


def _seconds() -> tuple[str, str] | None:
    """Cases in which Optuna suggests sooner."""
    heads, *rows = tables("loops.md", "Seconds per suggestion: median (worst)")[0]
    ours, theirs = heads.index("pied"), heads.index("optuna-gp")
    times = {f"{row[0]}, {row[1]}": (leading(row[ours]), leading(row[theirs])) for row in rows if row[theirs] != "-"}
    slower = {name: pair for name, pair in times.items() if pair[0] > pair[1]}
    if not slower:
        return None
    worst = max(slower, key=lambda name: slower[name][0] / slower[name][1])
    a, b = slower[worst]
    mixed_heads, *mixed = tables("mixed.md", "All problems of the set")[0]
    tree = next(row[mixed_heads.index("seconds per suggestion")] for row in mixed if row[0] == "optuna-tpe")
    return (
        f"**Seconds.** Optuna's Gaussian process suggests faster in {len(slower)} of {len(times)} cases, at worst "
        f"{b:g} against {a:g} s ({worst}); its TPE takes {tree} s on the mixed problems."
    ), "loops.md"


def _nothing_known() -> tuple[str, str] | None:
    """What is left without a known part."""
    _, *rows = next(table for table in tables("black.md") if "strict, 1e-2" in table[0])
    by = {row[0].strip("`"): row for row in rows}
    test = {name: by[name][1].split(" / ")[1] for name in ("cuqb", "eic")}
    return (
        f"**Nothing known.** Without formulas `pied` is an ordinary method: {leading(by['cuqb'][4]):g} of 21 problems "
        f"to 1e-4, expected improvement {leading(by['eic'][4]):g}; by the paper's looser test {test['cuqb']} against "
        f"{test['eic']}."
    ), "black.md"


def _mixed() -> tuple[str, str] | None:
    """Mixed problems that are not solved in nine runs of ten."""
    heads, *rows = next(t for t in tables("mixed.md") if t[0][:2] == ["problem", "d"])
    shares = {row[0]: leading(row[heads.index("pied")]) for row in rows}
    low = [f"{name} {share:g} %" for name, share in shares.items() if share < 90]
    if not low:
        return None
    return f"**Mixed problems** not solved to 1e-4 in nine runs of ten: {', '.join(low)}.", "mixed.md"


def _fronts() -> tuple[str, str] | None:
    """Fronts of which BoTorch has more in the same evaluations."""
    heads, *rows = tables("fronts.md", "Hypervolume still missing after 40 evaluations (median of the seeds)")[0]
    ahead = next(row for row in rows if row[0] == "pied ahead")[heads.index("botorch")]
    led, of = (int(word) for word in ahead.split(" of "))
    if led == of:
        return None
    return (
        f"**Two objectives.** BoTorch has more of the front than `pied` in the same evaluations, at most 40, on "
        f"{of - led} of {of} problems (one seed; some of its runs were cut off before)."
    ), "fronts.md"


def _peers() -> tuple[str, str] | None:
    """Problems on which another library needs fewer evaluations."""
    sooner = []
    for tolerance, words in ((1e-2, "1 %"), (1e-6, "1e-6")):
        for problem in peer_problems():
            ours = evaluations("pied", problem, tolerance)
            for library, title in PEERS.items():
                theirs = evaluations(library, problem, tolerance)
                if ours is not None and theirs is not None and theirs < ours:
                    with_ours = "not at all" if math.isinf(ours) else f"{ours:.0f}"
                    sooner.append(f"{title} on *{problem}* to {words} ({theirs:.0f} against {with_ours})")
    closer = []
    for problem in peer_problems():
        ours = best_regret("pied", problem)
        for library, title in PEERS.items():
            theirs = best_regret(library, problem)
            if ours is not None and theirs is not None and ours > NEGLIGIBLE and theirs < ours / 10:
                closer.append(f"{title} on *{problem}* ({theirs:.0e} against {ours:.0e})")
    parts = [f"need fewer evaluations: {', '.join(sooner)}"] if sooner else []
    parts += [f"end ten times closer: {', '.join(closer)}"] if closer else []
    return (f"**Other libraries** {'; '.join(parts)}.", "peers.json") if parts else None


def _startup() -> tuple[str, str] | None:
    """Commands that are slower than was asked for."""
    rows = tables("startup.md")[0][1:]
    late = [
        f"`{re.sub('`', '', row[0])}` {row[2]} (wanted {row[3]})"
        for row in rows
        if row[3] != "-" and leading(row[2]) > leading(row[3])
    ]
    said = f"**Commands.** In times of `import numpy, scipy.linalg`: {', '.join(late)}."
    return (said, "startup.md") if late else None
