"""The belief about the black box h: one Gaussian process per output, its model chosen by the data."""

from pied.gp.campaigns import alike, foretold, in_block
from pied.gp.choices import Model, ModelChoice
from pied.gp.drift import MODELLED, left_by_model
from pied.gp.enclosure import Enclosure, Over
from pied.gp.features.coding import Coding, Labels, scaled
from pied.gp.gross import Misfit, misfits
from pied.gp.observations import MOST_TOLD
from pied.gp.parts.border import Border
from pied.gp.parts.odds import evidence, kernel_of
from pied.gp.parts.split import Split, split
from pied.gp.paths import Paths
from pied.gp.prior import Prior
from pied.gp.process import GP
from pied.gp.resolution import step_of
from pied.gp.warps import Warp

__all__ = [
    "GP",
    "MODELLED",
    "MOST_TOLD",
    "Border",
    "Coding",
    "Enclosure",
    "Labels",
    "Misfit",
    "Model",
    "ModelChoice",
    "Over",
    "Paths",
    "Prior",
    "Split",
    "Warp",
    "alike",
    "evidence",
    "foretold",
    "in_block",
    "kernel_of",
    "left_by_model",
    "misfits",
    "scaled",
    "split",
    "step_of",
]
