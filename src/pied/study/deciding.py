"""The part of `Study` that helps to decide: gap, what if, worth of limits, a report. The record is not changed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pied.errors import SettingError
from pied.problem import listed
from pied.records import Trial
from pied.solvers.base import Proposal
from pied.study.relaxation import Relaxation
from pied.study.result import Result
from pied.study.snapshot import Snapshot

if TYPE_CHECKING:
    from pied.study.explain import Explanation
    from pied.study.outlook import Answer, Outlook
    from pied.study.recommendation import Recommendation
    from pied.study.robust import Robust
    from pied.study.sensitivity import Sensitivities
    from pied.study.sweep import Sweep


class Deciding(ABC):
    """A study that answers more than which settings are best."""

    _looked: "Outlook | None" = None  # of the last snapshot

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """Return the study at this moment."""

    @abstractmethod
    def _known(self, trial: Trial | int) -> Trial:
        """Return a trial of the record."""

    @abstractmethod
    def result(self, rule: str | None = None) -> Result:
        """Return the recommended point and all that is known about it."""

    @property
    def outlook(self) -> "Outlook":
        """The study at this moment, asked with other constants and limits; kept until the record changes."""
        if (goals := self._snapshot().problem).has_front:
            raise SettingError(
                "what-if, sweeps, sensitivities, explanations and robust choices need one objective, and this study "
                f"has {listed(goals.objectives)}: choose from its front (result.pick), or ask a study of one of them "
                "with limits for the others"
            )
        return self._seen()

    def _seen(self) -> "Outlook":
        """Return the study at this moment, whatever it asks."""
        from pied.study.outlook import Outlook

        snapshot = self._snapshot()
        if self._looked is None or self._looked.snapshot is not snapshot:
            self._looked = Outlook(snapshot)
        return self._looked

    def _for_sweep(self, sweep: "Sweep") -> Proposal:
        """Return the point that sharpens a sweep most."""
        from pied.study.sweep import proposal

        return proposal(self.outlook, sweep)

    def gap(self, recommendation: "Recommendation | None" = None) -> tuple[float | None, float | None]:
        """Return the gap and the relative gap: how much better any point could still be (see `gaps.gap`)."""
        return self._snapshot().gap(recommendation)

    def relaxation(self) -> Relaxation | None:
        """Return what would make an infeasible problem plausible again; None unless the status is infeasible."""
        return self._snapshot().relaxation()

    def expect(self, x: Any) -> dict[str, tuple[float, float, float]]:
        """Return what a measurement at a point probably gives: for each output its lower end, median and upper end."""
        snapshot = self._snapshot()
        low, middle, high = snapshot.expected(snapshot.problem.point(x)[None])
        ends = zip(low[0].tolist(), middle[0].tolist(), high[0].tolist(), strict=True)
        return dict(zip(snapshot.problem.outputs, ends, strict=True))

    def what_if(self, changes: Mapping[str, float] | None = None, /, **named: float) -> "Answer":
        """Return the best settings if constants and limits were others; nothing is recorded.

        Args:
            changes: New values by the names of constants and limits; a limit has the name of its constraint.
            named: The same for names that are single words.
        """
        return self.outlook.answer({**(changes or {}), **named})

    def sweep(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> "Sweep":
        """Return the optimum as a function of one or two constants or limits; nothing is recorded.

        Args:
            values: The values of each by its name; a limit has the name of its constraint.
            named: The same for names that are single words: `study.sweep(price=np.linspace(8, 14, 25))`.
        """
        from pied.study.sweep import swept

        return swept(self.outlook, {**(values or {}), **named})

    def sensitivities(self) -> "Sensitivities | None":
        """Return what limits and constants are worth at the optimum, with bounds and the ranges in which it holds.

        None while no settings are known to meet all limits.
        """
        return self._worth(self.outlook, ranges=True)

    @staticmethod
    def _worth(outlook: "Outlook", *, ranges: bool = False) -> "Sensitivities | None":
        """Return what limits and constants are worth, by one state of the record."""
        from pied.study.sensitivity import sensitivities

        return sensitivities(outlook, ranges=ranges)

    def explain(self, trial: Trial | int) -> "Explanation":
        """Say what a proposed trial is for: what is hoped for, what is in doubt, what would change the answer."""
        from pied.study.explain import explained

        return explained(self.outlook, self._known(trial))

    def importance(self) -> dict[str, dict[str, float]]:
        """Return how much each setting matters for each output, by the belief: total Sobol indices over the ranges."""
        from pied.study.explain import importance

        return importance(self._seen())

    def recommend(
        self, rule: str | None = None, *, vary: Mapping[str, Any] | None = None, probability: float = 0.9
    ) -> "Result | Robust":
        """Recommend settings by a rule.

        Args:
            rule: As in `result`; or "robust": the best mean objective while all limits are met with a probability
                though settings are not held exactly and constants move.
            vary: What varies, evenly: a setting by so much down and up, `{"T": 1.0}`; a constant or limit over a range,
                `{"price": (9, 12)}`. Needed with "robust".
            probability: That all limits are met, over what varies and by the belief.
        """
        if rule != "robust":
            if vary is not None:
                raise SettingError('vary= belongs to the rule "robust"')
            return self.result(rule)
        from pied.study.robust import robust

        return robust(self.outlook, vary or {}, probability)

    def report(self, file: str | Path) -> Path:
        """Write a page that holds everything: question, answer, pictures, predictions, trials, history, settings."""
        written: Path = import_module("pied.report").write(self, file)  # it lies above: reports draw pictures
        return written
