"""The problems by name, the sets they form, and a table of all."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pied.errors import UnknownName, did_you_mean
from pied.suite.applied import APPLIED, ILLUSTRATIVE
from pied.suite.benchmark import Benchmark
from pied.suite.constrained import CONSTRAINED
from pied.suite.equipment import EQUIPMENT
from pied.suite.fronts import FRONTS, FrontBenchmark
from pied.suite.machines import MACHINES
from pied.suite.processes import PROCESSES
from pied.suite.rough import OWN_NOISE, ROUGH_PROBLEMS
from pied.suite.unconstrained import UNCONSTRAINED

CATALOGUE = UNCONSTRAINED | CONSTRAINED | APPLIED | ILLUSTRATIVE
"""Name to statement: the paper's 22 problems, then its two illustrations."""
MIXED = MACHINES | PROCESSES | EQUIPMENT
"""Name to statement: problems with integers, standard sizes, choices and mixtures. They are found by name and in their
set; iterating over the suite gives the paper's problems, which every solver can solve."""
OTHERS = MIXED | ROUGH_PROBLEMS
"""Name to statement: what is found by name and in its set only."""

SETS: dict[str, tuple[str, ...]] = {
    "unconstrained": tuple(UNCONSTRAINED),
    "constrained": tuple(CONSTRAINED),
    "applied": tuple(APPLIED),
    "illustrative": tuple(ILLUSTRATIVE),
    "paper": (*UNCONSTRAINED, *CONSTRAINED, *APPLIED),
    "mixed": tuple(MIXED),
    "rough": tuple(ROUGH_PROBLEMS),
    "fronts": tuple(FRONTS),
}
"""Names by set; 'paper' has all 22 problems of its comparison, 'mixed' those that are not continuous, 'rough' those
whose outputs are not smooth or whose noise is not constant, 'fronts' those of several objectives (`front`)."""


@cache
def _stated(name: str) -> Benchmark:
    return {**CATALOGUE, **OTHERS}[name]()


def get(
    name: str,
    structure: str = "full",
    noise: float | Mapping[str, float] = 0.0,
    *,
    seed: int = 0,
    declare_noise: bool = False,
    knows: str = "white",
) -> Benchmark:
    """Return a problem of the suite by name.

    Example: `docs/guide-suite.md`.

    Args:
        name: for instance 'williams-otto'; iterate over `suite` for all.
        structure: what the solver is given: 'full' (inputs per output and physical ranges), 'paper' (the inputs that
            the authors' code passes to h, no ranges: a like-for-like comparison) or 'black' (g folded into h).
        noise: standard deviation added to each output: a number, or one per output by name. Zero is exact, or the noise
            that belongs to the problem (two of the set 'rough').
        seed: of the noise; repeated evaluations differ, repeated runs do not.
        declare_noise: whether the statement gives the noise; by default it has to be learned.
        knows: 'white': constraints that need no output are known exactly; 'nothing': each is a further output, to be
            learned, as in the paper's comparison.
    """
    if name in FRONTS and name not in OTHERS:
        raise UnknownName(f"'{name}' has several objectives: suite.front('{name}') returns it.", name)
    if name not in CATALOGUE and name not in OTHERS:
        raise UnknownName(f"The suite has no problem '{name}'.{did_you_mean(str(name), [*CATALOGUE, *OTHERS])}", name)
    if not noise and name in OWN_NOISE:
        return _stated(name).told(structure, seed=seed, knows=knows, **OWN_NOISE[name])
    return _stated(name).told(structure, noise, seed=seed, declare_noise=declare_noise, knows=knows)


@cache
def front(name: str) -> FrontBenchmark:
    """Return a problem of several objectives by name, with its reference point and hypervolume.

    Example: `docs/guide-suite.md`.

    Args:
        name: one of `suite.sets["fronts"]`.
    """
    if name not in FRONTS:
        raise UnknownName(f"The suite has no front '{name}'.{did_you_mean(str(name), FRONTS)}", name)
    return FRONTS[name]()


def describe(benchmark: Benchmark) -> str:
    """Return briefly how each function uses the outputs, for instance 'affine; white, affine'."""
    kinds = [each.kind for each in benchmark.whole.structure]
    return "; ".join([kinds[0], ", ".join(kinds[1:])]) if kinds[1:] else kinds[0]


def table() -> list[dict[str, Any]]:
    """Return one plain row per problem: name, d, m, n, optimum, feasible fraction, structure and source.

    Example: `docs/recipes.md`.
    """
    rows = []
    for name in CATALOGUE:
        benchmark = get(name)
        known, whole = benchmark.known, benchmark.whole
        rows.append(
            {
                "name": name,
                "d": whole.d,
                "m": whole.m,
                "n": whole.n,
                "optimum": None if known is None else known.value,
                "feasible": benchmark.feasible_fraction,
                "structure": describe(benchmark),
                "source": "no objective" if known is None else known.source,
            }
        )
    return rows
