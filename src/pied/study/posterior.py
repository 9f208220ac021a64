"""What data say of the parameters: draws from the posterior, with all that the belief leaves open included."""

import csv
import io
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, TellError, UnknownName, did_you_mean
from pied.problem import Named, Problem
from pied.shapes import Bool, Float64
from pied.solvers.base import Proposal
from pied.study import identification
from pied.study.bands import Bands, bands
from pied.study.draws import Draws
from pied.study.ensemble import CONVERGED, drawn
from pied.study.likelihood import Data, Discrepancy, Likelihood, check_prior
from pied.study.snapshot import Snapshot
from pied.study.words import aligned, figure, percent

logger = logging.getLogger(__name__)

DRAWS = 2000
"""Draws that are kept."""
EFFECTIVE = 1000.0
"""Independent draws that are wanted; the end of a 90 % interval is then known to a fifteenth of a deviation."""
EFFECTIVE_OF_PROPOSALS = 200.0
"""The same where the next evaluation is chosen."""
SETTLED = 0.05
"""Share of the emulator in the variance of the parameters up to which more evaluations change hardly anything."""
TESTED = 2
"""Evaluations among the draws without which nothing is settled."""
BULK = 0.01
"""Of the draws have a lower density than an evaluation that lies among them."""
LEVEL = 0.9
"""Of the intervals that are shown."""
KNOWN = 2
"""Told points with the highest likelihood, from which the search begins, too."""
FEWEST = "the posterior needs more complete evaluations: after these few, nothing but measured values is stated"


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the parameters given the data, by the belief of one moment.

    Example: `docs/guide-calibration.md`.
    """

    sample: Draws
    """The draws, and what they are made of."""

    @property
    def snapshot(self) -> Snapshot:
        """The moment of the study."""
        return self.sample.snapshot

    @property
    def problem(self) -> Problem:
        """The statement."""
        return self.sample.problem

    @property
    def likelihood(self) -> Likelihood:
        """How likely the data are."""
        return self.sample.likelihood

    @property
    def V(self) -> Float64[ndarray, "L D"]:
        """The draws of all unknowns, unit cube: parameters, then sizes of errors."""
        return self.sample.V

    @property
    def X(self) -> Float64[ndarray, "L v"]:
        """The draws of all variables in natural units; labels are numbers."""
        return self.sample.X

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters: all variables that are not given."""
        return tuple(name for name in self.problem.variables if name not in self.problem.given or self._is_range(name))

    def _is_range(self, name: str) -> bool:
        return isinstance(self.problem.given.get(name), list)

    @cached_property
    def draws(self) -> dict[str, Any]:
        """The draws of each parameter by its name, and those of errors that are learned."""
        places = list(self.problem.variables)
        found = {
            name: np.array([self.problem.variables[name].at(each) for each in self.X[:, places.index(name)].tolist()])
            if self.problem.variables[name].is_choice
            else self.X[:, places.index(name)]
            for name in self.names
        }
        return found | self.likelihood.errors(self.V)

    def __getitem__(self, name: str) -> Any:
        if name not in self.draws:
            raise UnknownName(f"there are no draws of '{name}'.{did_you_mean(name, self.draws)}", name)
        return self.draws[name]

    @property
    def numbers(self) -> dict[str, Float64[ndarray, "L"]]:
        """The draws of the parameters that are no labels, and of errors."""
        return {name: each for name, each in self.draws.items() if each.dtype.kind == "f"}

    # ------------------------------------------------------------------------------------------------------ summaries

    @property
    def mean(self) -> dict[str, float]:
        """The mean of each parameter."""
        return {name: float(each.mean()) for name, each in self.numbers.items()}

    @property
    def deviation(self) -> dict[str, float]:
        """The standard deviation of each parameter."""
        return {name: float(each.std()) for name, each in self.numbers.items()}

    def quantile(self, p: float) -> dict[str, float]:
        """Return a quantile of each parameter."""
        return {name: float(np.quantile(each, p)) for name, each in self.numbers.items()}

    def interval(self, level: float = LEVEL) -> dict[str, tuple[float, float]]:
        """Return the range in which each parameter lies with a probability, as much of the rest on either side."""
        if not 0 < level < 1:
            raise SettingError(f"the probability of an interval lies between 0 and 1, got {level}")
        low, high = self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)
        return {name: (low[name], high[name]) for name in low}

    def chances(self) -> dict[str, dict[str, float]]:
        """Return the probability of each label of each choice."""
        choices = {name: self.problem.variables[name] for name in self.names if self.problem.variables[name].is_choice}
        return {name: {label: float((self.draws[name] == label).mean()) for label in each.labels}
                for name, each in choices.items()}  # fmt: skip

    @cached_property
    def log_density(self) -> Float64[ndarray, "L"]:
        """The logarithm of likelihood and prior of each draw, in the scales of the variables."""
        return self.likelihood.log_density(self.V)

    def region(self, level: float = LEVEL) -> Bool[ndarray, "L"]:
        """Return which draws are the most likely ones that together have a probability: the smallest joint region."""
        return np.asarray(self.log_density >= np.quantile(self.log_density, 1.0 - level))

    @property
    def best(self) -> Named:
        """The most likely draw."""
        return self.problem.named_x(self.problem.natural(self.sample.U[int(self.log_density.argmax())]))

    @property
    def correlations(self) -> dict[tuple[str, str], float]:
        """The correlation of each pair of parameters that are numbers, in their own scales."""
        return identification.correlations(self.sample)

    @property
    def unidentified(self) -> tuple[str, ...]:
        """What the data do not determine, as sentences."""
        return identification.unidentified(self.sample)

    @cached_property
    def informs(self) -> dict[str, dict[str, float]]:
        """By parameter and output, which share of the variance without the output its datum takes away.

        By the slopes of the outputs near the draws; outputs below a hundredth are left out, the most telling come
        first.
        """
        return identification.informs(self.sample)

    def profile(self, name: str, points: int = 21) -> tuple[Float64[ndarray, "p"], Float64[ndarray, "p"]]:
        """Return values of a parameter, and the largest log-likelihood that any others reach with each, less the best.

        Values within 1.35 (90 %) or 1.92 (95 %) of the best are not refuted by the data.
        """
        return identification.profile(self.sample, name, points)

    def predict(self, what: Any = None, *, at: Mapping[str, Any] | None = None, level: float = LEVEL) -> Bands:
        """Return the bands in which outputs or formulas lie, by the draws and by what the belief leaves open.

        Args:
            what: Outputs or formulas of variables and outputs, one or a list; by default all outputs.
            at: Settings with other values, such as new conditions; of a list of values, a band each.
            level: Probability of a band.
        """
        return bands(self.sample, what, dict(at or {}), level)

    # --------------------------------------------------------------------------------------------------------- trust

    @cached_property
    def rhat(self) -> float:
        """Split R-hat, the largest over unknowns: 1 if independent ensembles of walkers agree."""
        return float(self.sample.chains.rhat.max())

    @cached_property
    def effective(self) -> float:
        """How many independent draws tell as much, the fewest over unknowns."""
        return float(self.sample.chains.effective.min())

    @property
    def is_converged(self) -> bool:
        """Whether the draws can be relied on: ensembles agree, and enough draws count."""
        return self.rhat < CONVERGED and self.effective >= EFFECTIVE_OF_PROPOSALS

    @cached_property
    def emulator_share(self) -> float:
        """Share of the variance of the parameters that more evaluations would take away, the largest over parameters.

        Black boxes are drawn from the belief. Each one has its own posterior; how far their means differ is due to the
        belief, and what is left within each of them to the errors of the data.
        """
        return identification.emulator_share(self.sample)

    @cached_property
    def tested(self) -> int:
        """How many evaluations lie among the draws: there the belief was compared with the black box."""
        data, likelihood = self.snapshot.data, self.likelihood
        V = likelihood.unknowns(data.U[data.complete])
        V[:, len(likelihood.free) :] = np.median(self.V[:, len(likelihood.free) :], 0)
        inside = ((data.U[data.complete] >= 0) & (data.U[data.complete] <= 1)).all(1)
        return int((inside & (likelihood.log_density(V) >= np.quantile(self.log_density, BULK))).sum())

    @property
    def is_settled(self) -> bool:
        """Whether more evaluations of the black box would change hardly anything, as evaluations among the draws show.

        A belief that was never tested where it sees the parameters may be sure and wrong.
        """
        return self.emulator_share <= SETTLED and self.tested >= TESTED

    def proposal(self) -> Proposal:
        """Return the settings whose evaluation makes the posterior most certain."""
        from pied.study.settling import proposed

        return proposed(self.snapshot, identification.most_telling(self.sample), "posterior")

    # ----------------------------------------------------------------------------------------------------------- text

    @property
    def columns(self) -> list[str]:
        """The headings of its table."""
        return ["parameter", "median", "low", "high", "deviation", "narrowed", "R-hat"]

    def rows(self, level: float = LEVEL) -> list[dict[str, Any]]:
        """Return its table, a dictionary for each parameter that is a number."""
        ends, median, deviation = self.interval(level), self.quantile(0.5), self.deviation
        narrowed, rhat = (
            identification.narrowed(self.sample),
            dict(zip(self._unknowns, self.sample.chains.rhat, strict=True)),
        )
        return [
            dict(zip(self.columns, (name, median[name], *ends[name], deviation[name], narrowed.get(name),
                                    float(rhat[name]) if name in rhat else None), strict=True))
            for name in ends
        ]  # fmt: skip

    @property
    def _unknowns(self) -> list[str]:
        """What each coordinate of `V` is."""
        axes = list(self.problem.axes)
        return [*(axes[place] for place in self.likelihood.free.tolist()), *self.likelihood.sizes]

    def to_csv(self) -> str:
        """Return the draws as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.draws)
        writer.writerows(zip(*(each.tolist() for each in self.draws.values()), strict=True))
        return text.getvalue()

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        """Return all that is said as plain data."""
        return {
            "level": level,
            "parameters": self.rows(level),
            "choices": self.chances(),
            "correlations": [[*pair, value] for pair, value in self.correlations.items()],
            "unidentified": list(self.unidentified),
            "informs": self.informs,
            "emulator_share": self.emulator_share,
            "tested": self.tested,
            "settled": self.is_settled,
            "rhat": self.rhat,
            "effective": self.effective,
            "converged": self.is_converged,
        }

    def _table(self) -> list[list[str]]:
        """Return the cells of its table."""
        head = ["parameter", "median", f"{percent(LEVEL)} interval", "narrowed", "told by"]
        lines = []
        for row in self.rows():
            low, high = row["low"], row["high"]
            width = high - low
            by = ", ".join(list(self.informs.get(row["parameter"], {}))[:2])
            narrowed = "" if row["narrowed"] is None else percent(row["narrowed"])
            ends = f"{figure(low, width)} to {figure(high, width)}"
            lines.append([row["parameter"], figure(row["median"], width), ends, narrowed, by])
        told = any(line[-1] for line in lines)
        return [each if told else each[:-1] for each in (head, *lines)]

    @property
    def sentences(self) -> list[str]:
        """What is said below its table."""
        choices = [
            f"{name}: {', '.join(f'{label} {percent(p)}' for label, p in sorted(chances, key=lambda i: -i[1])[:3])}."
            for name, chances in ((name, each.items()) for name, each in self.chances().items())
        ]
        share, count = self.emulator_share, int(self.snapshot.data.complete.sum())
        many = "are" if self.tested != 1 else "is"
        emulator = f"After {count} evaluations, {self.tested} of which {many} among the draws, the emulator adds " + (
            f"{percent(share)} of the variance" + ("." if self.is_settled else "; ask(for_posterior=True) for more.")
        )
        sure = f"{len(self.V)} draws, {self.effective:.0f} effective, split R-hat {self.rhat:.3f}."
        doubt = [] if self.is_converged else ["NOT CONVERGED: independent walkers disagree; do not rely on this."]
        return [*choices, *self.unidentified, emulator, sure, *doubt]

    @property
    def title(self) -> str:
        """With which data and errors."""
        likelihood = self.likelihood
        count, stated = likelihood.squares.root.shape[1], likelihood.sigma
        errors = "errors learned" if stated is None else "errors stated" if stated == 1.0 else f"errors of {stated:g}"
        given = f", with {self.problem.slice}" if self.problem.given else ""
        return f"Parameters given {count} data, {errors}{given}"

    def __str__(self) -> str:
        return "\n".join([self.title, aligned(self._table()), *self.sentences])

    def _repr_html_(self) -> str:
        head, *lines = self._table()
        row = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
        said = "<br>".join(escape(each) for each in self.sentences)
        return f"<p>{escape(self.title)}</p><table><tr>{row}</tr>{body}</table><p>{said}</p>"


def posterior_of(snapshot: Snapshot, stated: Data, effective: float = EFFECTIVE) -> Posterior:
    """Return the posterior by the record of a study.

    Args:
        snapshot: The study at one moment.
        stated: Data, errors and prior.
        effective: Independent draws that are wanted.
    """
    snapshot = snapshot.on(stated.given)
    problem, data, believer = snapshot.problem, snapshot.data, snapshot.settings.believer
    if problem.candidates is not None or problem.has_front:
        what = "several objectives" if problem.has_front else "a list of candidates"
        raise SettingError(f"a posterior is over a box, for one objective: this problem has {what}")
    check_prior(problem, stated.prior)
    if data.complete.sum() < 2 or snapshot.is_too_few:
        raise TellError(FEWEST)
    belief = believer.careful(problem, data, snapshot.alone, snapshot.level)
    composite = believer.bound(problem, data, belief, snapshot.stream.at("posterior", "limits"))
    likelihood = Likelihood.of(problem, belief, composite, data, stated)
    told = likelihood.unknowns(np.clip(data.U[data.complete], 0.0, 1.0))
    known = told[(-likelihood.log_density(told)).argsort(kind="stable")[:KNOWN]]
    chains = drawn(likelihood.log_density, likelihood.D, known, snapshot.stream.at("posterior"), effective)
    if chains is None:
        raise SettingError("no settings meet the limits on settings, or none have a likelihood that is a number")
    V, _ = chains.thinned(DRAWS)
    found = Posterior(Draws(snapshot, likelihood, chains, V))
    if not found.is_converged and effective >= EFFECTIVE:
        logger.warning(
            "the draws have not converged: split R-hat %.3f, %.0f effective draws", found.rhat, found.effective
        )
    return found


def next_for(snapshot: Snapshot, stated: Data) -> Proposal | None:
    """Return the evaluation that makes a posterior most certain; None before anything can be said of one."""
    on = snapshot.on(stated.given)
    if on.initial_index is not None or on.is_too_few:
        return None
    return posterior_of(snapshot, stated, EFFECTIVE_OF_PROPOSALS).proposal()


def read(
    data: Any = None,
    sigma: Any = None,
    prior: Mapping[str, Any] | None = None,
    discrepancy: Any = None,
    limits: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Data:
    """Read what a posterior is asked with."""
    if discrepancy is not None and not isinstance(discrepancy, Discrepancy):
        if isinstance(discrepancy, bool) or not (isinstance(discrepancy, int | float) or discrepancy == "learned"):
            raise SettingError(f'discrepancy= is a number, "learned" or Discrepancy(...), got {discrepancy!r}')
        discrepancy = Discrepancy(None if discrepancy == "learned" else float(discrepancy))
    return Data(data, sigma, dict(prior or {}), discrepancy, limits, dict(given or {}))
