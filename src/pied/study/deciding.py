"""The part of `Study` that helps to decide: what if, sweeps, worth of limits. Nothing is written to the record."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pied.solvers.base import Proposal
from pied.study.snapshot import Snapshot

if TYPE_CHECKING:
    from pied.study.outlook import Answer, Outlook
    from pied.study.sensitivity import Sensitivities
    from pied.study.sweep import Sweep


class Deciding(ABC):
    """A study that answers more than which settings are best."""

    _looked: "Outlook | None" = None  # of the last snapshot

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """Return the study at this moment."""

    @property
    def outlook(self) -> "Outlook":
        """The study at this moment, asked with other constants and limits; kept until the record changes."""
        from pied.study.outlook import Outlook

        snapshot = self._snapshot()
        if self._looked is None or self._looked.snapshot is not snapshot:
            self._looked = Outlook(snapshot)
        return self._looked

    def _for_sweep(self, sweep: "Sweep") -> Proposal:
        """Return the point that sharpens a sweep most."""
        from pied.study.sweep import proposal

        return proposal(self.outlook, sweep)

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

        return sensitivities(outlook, ranges=ranges) if outlook.has_belief else None
