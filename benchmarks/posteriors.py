"""Errors of posteriors by the number of simulations, beside emulators of points that fill space.

    python benchmarks/posteriors.py oscillation 0   # half a minute; results/posteriors.md

The truth are 4,000 draws with the simulator itself. The error of a marginal is its Wasserstein distance from the true
one, in units of the true standard deviation: 0.1 is a shift by a tenth of a deviation. "plain" is an emulator as it is
usually made: one squared exponential kernel and a constant for each output, what it says taken at its word.
"""

import contextlib
import sys
from pathlib import Path

import numpy as np
from scipy.stats import wasserstein_distance

import pied
from pied.bounds import Believer
from pied.errors import PiedError, TellError
from pied.gp import Model
from pied.rng import Stream
from pied.solvers.cuqb import CUQB
from pied.study.ensemble import drawn

RESULTS = Path(__file__).parent / "results" / "posteriors.md"
COUNTS, INITIAL = (8, 12, 16), 6
PLAIN = Believer(
    Model(
        kernels=("squared exponential",),
        trends=("constant",),
        warps=("none",),
        scales=("plain",),
        waves=False,
        plateaus=False,
    ),
    cautious=False,
    mixture=False,
)  # fmt: skip
TIMES = np.linspace(0.5, 6.0, 8)


def decay(a, k):
    """Return a product of two consecutive reactions."""
    return a * k / (k - 0.35) * (np.exp(-0.35 * TIMES) - np.exp(-k * TIMES))


def swing(omega, zeta, q):
    """Return a damped oscillation."""
    damped = omega * np.sqrt(1 - zeta**2)
    decaying = np.exp(-zeta * omega * TIMES)
    return q * decaying * (np.cos(damped * TIMES) + zeta * omega / damped * np.sin(damped * TIMES))


def epidemic(beta, gamma):
    """Return the share of the infected, by Euler's method in small steps."""
    s, i, course = 0.99, 0.01, []
    for step in range(1, 121):
        new, over = beta * s * i * 0.1, gamma * i * 0.1
        s, i = s - new, i + new - over
        if step % 15 == 0:
            course.append(i)
    return np.concatenate(course, -1)


PROBLEMS = {
    "reactions": (decay, {"a": (0.5, 2.0), "k": pied.Variable(0.5, 5.0, log=True)}, (1.1, 1.6), 0.03),
    "oscillation": (swing, {"omega": (0.8, 2.2), "zeta": (0.02, 0.6), "q": (0.5, 1.5)}, (1.4, 0.2, 1.0), 0.05),
    "epidemic": (epidemic, {"beta": (0.5, 3.0), "gamma": (0.1, 1.0)}, (1.5, 0.5), 0.02),
}


def stated(name, seed):
    """Return a problem with data of its own, and its simulator."""
    simulator, variables, truth, sigma = PROBLEMS[name]
    data = simulator(*(np.full((1, 1), each) for each in truth))[0] + sigma * Stream(seed).at(name).normal(len(TIMES))
    problem = pied.Problem(
        variables, [f"y{i}" for i in range(len(data))], minimize="sum((outputs - data)^2)",
        constants={"data": data.tolist()}, noise=0,
    )  # fmt: skip
    return problem, (lambda X: simulator(*np.atleast_2d(X).T[:, :, None])), data, sigma


def exact(problem, simulator, data, sigma):
    """Return draws by the simulator itself, in natural units."""

    def density(V):
        return -0.5 * ((simulator(problem.from_unit(V)) - data) ** 2).sum(1) / sigma**2

    chains = drawn(density, problem.d, np.zeros((0, problem.d)), Stream(7), 4_000.0)
    return problem.from_unit(chains.thinned(20_000)[0])


def errors(problem, simulator, data, sigma, arm, seed, truth):
    """Return the mean error of the marginals after each number of simulations."""
    solver = CUQB(believer=PLAIN) if arm == "plain" else "cuqb"
    study = pied.Study(problem, seed=seed, solver=solver, initial=INITIAL)
    U = Stream(seed).at("fill").sobol(max(COUNTS), problem.d)
    found, first = [], None
    for number in range(1, max(COUNTS) + 1):
        if arm in ("filled", "plain"):
            x = problem.named_x(problem.natural(U[number - 1]))
            study.add(x, simulator(x.array)[0])
        else:
            if arm == "asked" and first is None and study.used >= INITIAL:
                with contextlib.suppress(TellError):  # after too few evaluations nothing is said yet
                    first = study.posterior(sigma=sigma)
            trial = study.ask() if first is None else study.ask(for_posterior=first)
            study.tell(trial, simulator(trial.x.array)[0])
        if number in COUNTS:
            try:
                draws = study.posterior(sigma=sigma).X
            except PiedError:
                found.append(np.nan)
                continue
            each = [wasserstein_distance(a, b) / b.std() for a, b in zip(draws.T, truth.T, strict=True)]
            found.append(float(np.mean(each)))
    return found


ARMS = {
    "asked": "`ask(for_posterior=...)`",
    "fitted": "`ask()`, as for the fit",
    "filled": "points that fill space",
    "plain": "the same, plain emulator",
}
HEAD = f"""# Errors of posteriors by the number of simulations

`python benchmarks/posteriors.py PROBLEM SEED` for each row, pied {pied.__version__}, 2 x86 (2 cores, Intel Xeon 2.5
GHz, Python 3.11), 2026-11-19. Error of a marginal in true deviations, mean over parameters; draws alone leave about
0.03. PyVBMC was not compared.

| problem | data | simulations at | {" | ".join(map(str, COUNTS))} |
| --- | --- | --- |{" --- |" * len(COUNTS)}
"""


def main(name, seed):
    """Run all arms on one set of data, and write its rows into the page."""
    problem, simulator, data, sigma = stated(name, seed)
    truth = exact(problem, simulator, data, sigma)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [line for line in lines if line.startswith(tuple(f"| {each} |" for each in PROBLEMS))]
    rows = [line for line in rows if not line.startswith(f"| {name} | {seed} |")]
    for arm, words in ARMS.items():
        found = errors(problem, simulator, data, sigma, arm, seed, truth)
        rows.append(f"| {name} | {seed} | {words} | {' | '.join(f'{each:.2f}' for each in found)} |")
        print(rows[-1], flush=True)
    RESULTS.write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
