"""The belief about the black box h: one Gaussian process per output, its model chosen by the data."""

from pied.gp.choices import Choice, Model, Warp
from pied.gp.process import GP

__all__ = ["GP", "Choice", "Model", "Warp"]
