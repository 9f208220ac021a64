"""Whether noise that differs between points is learned, what that is worth, and what it costs where noise is the same.

    PYTHONPATH=src python3 benchmarks/uneven.py --limit 300 --out uneven.jsonl.gz      # until none is left
    python benchmarks/uneven.py --out uneven.jsonl.gz --report

One output of three inputs is fitted at 25, 40 or 60 points with noise to be learned, once with the same noise
everywhere (`Model(uneven=False)`), once as usual. Both beliefs predict 200 other measurements. Noise: the same
everywhere; the same with 5 % gross errors of ten deviations; growing with the output (also strongly) or along an input;
large in a quarter of the box; as the first, each point measured three times; growing with the output, repeated.
"""

import slices  # first: see there

# isort: split
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp import GP, Model
from pied.rng import Stream

KINDS = ("same", "gross errors", "output", "output, strongly", "input", "corner", "same, repeated", "output, repeated")
COUNTS = (25, 40, 60)
D = 3
ASKED = 200
"""Measurements that are predicted."""
REPEATS = 3
Z = 1.6448536269514722
"""Deviations within which nine of ten normal errors lie."""
WORST = -20.0
"""Log density of a measurement that a belief excludes."""


def items_of(seeds: int) -> list[slices.Item]:
    """Return every fit, seed by seed."""
    every = itertools.product(range(seeds), KINDS, COUNTS)
    return [{"seed": seed, "problem": kind, "points": count} for seed, kind, count in every]


def told(kind: str, seed: int, count: int) -> tuple[ndarray, ndarray, ndarray]:
    """Return points, measured values and the truth behind them, standardized; those to be predicted come last."""
    stream = Stream(seed).at("uneven", kind)
    repeats = REPEATS if kind.endswith("repeated") else 1
    U = Stream(seed).at("points").sobol(-(-count // repeats) + ASKED, D)
    U = np.concatenate([np.repeat(U[:-ASKED], repeats, 0)[:count], U[-ASKED:]])
    slopes, centre = stream.at("slopes").normal(D), stream.at("centre").uniform(D)
    y = np.sin(2.0 * U @ slopes) + ((U - centre) ** 2).sum(1)
    y = (y - y.mean()) / y.std()
    sizes = {
        "output": 0.1 * np.exp(0.7 * y),
        "output, strongly": 0.05 * np.exp(1.2 * y),
        "input": 0.1 * np.exp(2.5 * (U[:, 0] - 0.5)),
        "corner": np.where(U[:, 0] > 0.75, 0.5, 0.06),
    }
    deviation = sizes.get(kind.removesuffix(", repeated"), np.full(len(y), 0.1))
    error = deviation * stream.at("noise").normal(len(y))
    if kind == "gross errors":
        error = np.where(stream.at("gross").uniform(len(y)) < 0.05, 10.0 * error, error)
    return U, y + error, y


@np.errstate(all="ignore")
def run(item: slices.Item) -> dict[str, Any]:
    """Fit both beliefs; return how well each predicts, as plain data."""
    U, measured, truth = told(item["problem"], item["seed"], item["points"])
    n, found = item["points"], {}
    for name, differs in (("same", False), ("usual", True)):
        gp = GP.fit(U[:n], measured[:n, None], noise=[None], model=Model(uneven=differs))
        mean, deviation = (each[:, 0] for each in gp.moments(U[n:]))
        whole = np.hypot(deviation, gp.noise_deviation(U[n:])[:, 0])
        away = gp.warped(measured[n:, None])[:, 0] - mean
        slope = gp.unwarp_slopes(measured[n:, None])[:, 0]
        density = -0.5 * (away / whole) ** 2 - np.log(whole * np.abs(slope)) - 0.5 * np.log(2.0 * np.pi)
        found[name] = {
            "density": float(np.maximum(np.nan_to_num(density, nan=WORST), WORST).mean()),
            "error": float(np.sqrt(np.mean((gp.unwarp(mean[:, None])[:, 0] - truth[n:]) ** 2))),
            "inside": float(np.mean(np.abs(away) <= Z * whole)),
            "differs": bool(gp.choices[0].uneven),
        }
    return found


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page of some records."""
    lines = [
        slices.heading("Noise that differs between points", records),
        "",
        "Found: fits in which noise was found to differ. Gain: log density of other measurements, nats each, over a "
        "belief with the same noise everywhere, mean and quartiles. Error: root mean square error of the output behind "
        "the noise, relative to that belief's, median. Within: share of measurements within bounds said to hold with "
        "0.90, before caution widens them, with the same noise and as usual.",
        "",
        "| noise | points | found | gain: mean (quartiles) | error | within, same | within, usual |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, count in itertools.product(KINDS, COUNTS):
        own = [each for each in records if (each["item"]["problem"], each["item"]["points"]) == (kind, count)]
        if not own:
            continue
        gain = np.array([each["usual"]["density"] - each["same"]["density"] for each in own])
        error = np.median([each["usual"]["error"] / each["same"]["error"] for each in own])
        low, high = np.quantile(gain, [0.25, 0.75])
        within = [np.mean([each[name]["inside"] for each in own]) for name in ("same", "usual")]
        found = sum(each["usual"]["differs"] for each in own)
        gains = f"{gain.mean():+.3f} ({low:+.3f} .. {high:+.3f})"
        shares = " | ".join(f"{each:.2f}" for each in within)
        lines.append(f"| {kind} | {count} | {found} of {len(own)} | {gains} | {error:.2f} | {shares} |")
    lines += slices.troubles(records, ("problem", "points", "seed"))
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many records are left, or the page."""
    given = slices.parser(__doc__, out="uneven.jsonl.gz", seeds=24).parse_args(words)
    if given.report:
        return slices.write(given, page, "uneven.md")
    return slices.work_on(items_of(given.seeds), run, given)


if __name__ == "__main__":
    main()
