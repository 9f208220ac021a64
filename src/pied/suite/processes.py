"""Processes with stages to count, solvents to choose and fractions to mix.

Each black box takes the variables in order, as numbers or as arrays (a choice by its place in the list). The models are
the short-cut and steady-state models of textbooks, with constants of our own; each function names its source.
All optima were verified by enumeration (`enumeration`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy import ndarray

from pied.problem import Choice, Integer, Mixture, Variable
from pied.shapes import Float64
from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, exp, on_arrays
from pied.suite.machines import ENUMERATED


def of(table: Sequence[float], which: Number) -> Number:
    """Return the entry of a table for a choice, given by its place."""
    entries = np.array(table)[np.rint(which).astype(int)]
    return entries if isinstance(which, ndarray) else float(entries)


# --- Distillation column ----------------------------------------------------------------------------------------------

VOLATILITY, RICH = 2.5, 0.45
"""Relative volatility, and light fraction of the feed (a boiling liquid, 1 mol/s)."""
HALVINGS = 60
"""Of the bracket of the bottom's composition, to the last bit."""


def _column(stages: Number, feed: Number, reflux: Number, distillate: Number) -> tuple[Number, ...]:
    """Return the light fractions of both products: constant molar flows, equilibrium on every stage, total condenser.

    Stages are numbered from the reboiler. From a guess of the bottom's composition the stages are climbed; what leaves
    at the top grows with the guess while the balance wants it to fall, so bisection cannot fail.
    """
    return tuple(on_arrays(_products, (stages, feed, reflux, distillate)))


def _products(columns: list[ndarray]) -> list[ndarray]:
    stages, feed, reflux, distillate = columns
    feed, bottom = np.minimum(feed, stages - 1), 1.0 - distillate
    liquid = reflux * distillate
    vapour = liquid + distillate

    def top(x_bottom: Float64[ndarray, "b"]) -> Float64[ndarray, "b"]:
        return (RICH - bottom * x_bottom) / distillate

    def surplus(x_bottom: Float64[ndarray, "b"]) -> Float64[ndarray, "b"]:
        x, x_top = x_bottom, top(x_bottom)
        y = x
        for stage in range(1, int(stages.max()) + 1):
            y = np.where(stage <= stages, VOLATILITY * x / (1 + (VOLATILITY - 1) * x), y)
            below = (vapour * y + bottom * x_bottom) / (liquid + 1.0)
            above = (vapour * y - distillate * x_top) / liquid
            x = np.maximum(np.where(stage < feed, below, above), 0.0)
        return y - x_top

    low, high = np.maximum((RICH - distillate) / bottom, 0.0), np.minimum(RICH / bottom, 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_rich = surplus(middle) > 0
        low, high = np.where(is_rich, low, middle), np.where(is_rich, middle, high)
    return [top((low + high) / 2), (low + high) / 2]


def column() -> Benchmark:
    """The cheapest distillation column: whole stages, a whole feed stage, reflux and distillate.

    Purities of both products are h (a rigorous binary column). Cost is known: shell and trays by stages and vapour
    flow, steam by vapour flow.
    """
    return state(
        "distillation-column",
        _column,
        variables={
            "stages": Integer(8, 40),
            "feed": Integer(2, 24),
            "reflux": Variable(0.8, 6.0, log=True),
            "distillate": Variable(0.35, 0.55, unit="mol/s"),
        },
        outputs=["top", "bottom"],
        minimize="1.2*stages**0.9*sqrt(distillate*(reflux + 1)) + 30*distillate*(reflux + 1)",
        subject_to={
            "feed inside": "feed <= stages - 2",
            "distillate purity": "top >= 0.96",
            "bottom purity": "bottom <= 0.03",
        },
        ranges={"top": (0.0, 1.0), "bottom": (0.0, 1.0)},
        value=50.484388067957596,
        at=[18.0, 10.0, 1.4660710342243617, 0.4516129032258065],
        source=ENUMERATED,
        feasible=None,
    )


# --- Solvent and catalyst ---------------------------------------------------------------------------------------------

SOLVENTS = {
    "MeCN": (3.1, 82.0, 0.0, 0.0),
    "DMF": (2.2, 153.0, 0.55, 0.75),
    "EtOH": (1.2, 78.0, -0.35, -0.75),
    "toluene": (1.0, 111.0, -0.9, -0.6),
    "THF": (2.6, 66.0, -0.1, -0.35),
    "DMSO": (2.4, 189.0, 0.8, 1.3),
    "iPrOH": (1.4, 82.5, -0.5, -1.1),
}
"""Price per litre, boiling point in degrees Celsius, and the logarithms by which both rates differ."""
CATALYSTS = {
    "none": (0.0, -2.6, -1.4, 0.0),
    "Pd/C": (14.0, 0.5, 0.35, 900.0),
    "Ni": (2.0, -0.5, 0.1, 0.0),
    "Cu": (1.5, -0.9, -0.6, 500.0),
}
"""Price per gram, the logarithms by which both rates differ at 1 g/l, and what is taken off the first barrier in K."""


def _screening(solvent: Number, catalyst: Number, T: Number, hours: Number, loading: Number) -> tuple[Number, ...]:
    """Return the fractions of product and byproduct of a batch: A -> B -> C of first order, Arrhenius rates."""
    slower = 1 / (T + 273.15) - 1 / 353.15
    faster1 = of([each[2] for each in SOLVENTS.values()], solvent) + of([e[1] for e in CATALYSTS.values()], catalyst)
    faster2 = of([each[3] for each in SOLVENTS.values()], solvent) + of([e[2] for e in CATALYSTS.values()], catalyst)
    barrier = 8200.0 - of([each[3] for each in CATALYSTS.values()], catalyst)
    is_catalysed = 1.0 * (catalyst > 0.5)
    amount = is_catalysed * loading / (0.6 + loading) * 1.6 + (1 - is_catalysed)
    k1 = 0.55 * amount * exp(faster1 - barrier * slower)
    k2 = 0.03 * amount * exp(faster2 - 11500.0 * slower)
    gone1, gone2 = exp(-k1 * hours), exp(-k2 * hours)
    product = k1 * (gone2 - gone1) / (k1 - k2)  # the two rates are never equal in these tables
    return (product, 1 - gone1 - product)


def screening() -> Benchmark:
    """Choose solvent and catalyst, then temperature, time and loading: most profit with little byproduct.

    Each pair has kinetics of its own (h). Prices and boiling points are known properties.
    """
    solvents = {"price": {n: e[0] for n, e in SOLVENTS.items()}, "boiling": {n: e[1] for n, e in SOLVENTS.items()}}
    return state(
        "solvent-screening",
        _screening,
        variables={
            "solvent": Choice(*SOLVENTS, properties=solvents),
            "catalyst": Choice(*CATALYSTS, properties={"price": {n: e[0] for n, e in CATALYSTS.items()}}),
            "T": Variable(40.0, 110.0, unit="C"),
            "hours": Variable(0.5, 24.0, log=True, unit="h"),
            "loading": Variable(0.1, 2.0, log=True, unit="g/l"),
        },
        outputs=["product", "byproduct"],
        maximize="(100*product - 60*byproduct - 12 - solvent.price - catalyst.price*loading)/(hours + 3)",
        subject_to={"byproduct": "byproduct <= 0.06", "boiling": "T <= solvent.boiling - 5"},
        ranges={"product": (0.0, 1.0), "byproduct": (0.0, 1.0)},
        value=12.98164617049239,
        at=["DMF", "Pd/C", 94.10964504302534, 0.6758232768314815, 0.38264083706693347],
        source=ENUMERATED,
        feasible=None,
    )


# --- Blends -----------------------------------------------------------------------------------------------------------


def _coolant(water: Number, glycol: Number, glycerol: Number, salt: Number, T: Number) -> tuple[Number, ...]:
    """Return the logarithm of the viscosity (Grunberg and Nissan), density, heat capacity and freezing point."""
    cold = (20.0 - T) / 20.0
    pure = water * (0.0 + 0.5 * cold) + glycol * (2.9 + 1.1 * cold) + glycerol * (7.2 + 1.9 * cold) + salt * 3.0
    viscosity = pure + 1.4 * water * glycol - 2.6 * water * glycerol + 0.6 * glycol * glycerol + 4.5 * water * salt
    density = 1 / (water / 0.998 + glycol / 1.113 + glycerol / 1.261 + salt / 1.95) + 0.05 * water * salt
    capacity = 4.18 * water + 2.38 * glycol + 2.43 * glycerol + 0.9 * salt - 1.3 * water * salt - 0.25 * water * glycol
    freezing = -(30 * glycol + 20 * glycerol + 72 * salt) / water - 12 * glycol * salt
    return (viscosity, density, capacity, freezing)


def coolant() -> Benchmark:
    """The cheapest coolant: fractions of four substances that sum to one, and a temperature, within limits of flow.

    Logarithmic viscosity by the rule of Grunberg and Nissan, ideal volumes and a freezing point by particles are h;
    price and corrosion rules are known.
    """
    return state(
        "coolant-blend",
        _coolant,
        variables={
            "blend": Mixture(
                "water",
                "glycol",
                "glycerol",
                "salt",
                total=1,
                bounds={"water": (0.3, 0.9), "glycol": (0.0, 0.6), "glycerol": (0.0, 0.5), "salt": (0.0, 0.2)},
            ),
            "T": Variable(-30.0, -10.0, unit="C"),
        },
        outputs=["viscosity", "density", "capacity", "freezing"],
        minimize="1.1*glycol + 0.75*glycerol + 1.5*salt + 0.05*water + 0.02*(T + 30)"
        " + 0.12*(4.2 - density*capacity)**2",
        subject_to={
            "viscosity": "viscosity <= 3",
            "density": "density <= 1.1",
            "frost": "freezing <= T - 5",
            "corrosion": "salt <= 0.25*(glycol + glycerol)",
        },
        inputs={name: ["water", "glycol", "glycerol", "salt"] for name in ("density", "capacity", "freezing")},
        value=0.7441827188462232,
        at=[0.5982163991530258, 0.3214268806775792, 0.0, 0.08035672016939498, -21.100763714441243],
        source=ENUMERATED,
        feasible=None,
    )


OILS = {"spindle": (2.3, 0.852), "neutral": (3.5, 0.874), "bright stock": (6.1, 0.902), "ester": (2.9, 0.948)}
"""Logarithm of the viscosity at 40 C, and density."""
POLYMERS = {"none": (0.0, 0.0, 0.0), "OCP": (9.0, 0.35, 5.2), "PMA": (6.5, 0.72, 7.9), "PIB": (4.0, 0.2, 3.1)}
"""Thickening per unit of dose, its share that stays when hot, price."""


def _lubricant(
    light: Number, neutral: Number, heavy: Number, ester: Number, polymer: Number, dose: Number
) -> tuple[Number, ...]:
    """Return the logarithms of the viscosity at 40 and at 100 C, and the density."""
    fractions = (light, neutral, heavy, ester)
    cold = sum((x * ln for x, (ln, _) in zip(fractions, OILS.values(), strict=True)), 0.0) - 0.8 * light * heavy
    thick = of([each[0] for each in POLYMERS.values()], polymer) * dose * (1 + 4 * dose)
    stays = of([each[1] for each in POLYMERS.values()], polymer)
    hot = 0.62 * cold - 0.35 + 0.45 * ester + (0.55 + stays) * thick
    volume = sum((x / rho for x, (_, rho) in zip(fractions, OILS.values(), strict=True)), 0.0)
    return (cold + thick, hot, (1 + 0.2 * dose) / volume)


def lubricant() -> Benchmark:
    """The cheapest oil of a grade: base oils that sum to one, one of four polymers in doses of half a percent.

    Viscosities cold and hot and the density are h; the grade's window, the index rule and the prices are known.
    """
    return state(
        "lubricant-blend",
        _lubricant,
        variables={
            "base": Mixture(
                "light", "neutral", "heavy", "ester", total=1, bounds={"heavy": (0.0, 0.6), "ester": (0.0, 0.4)}
            ),
            "polymer": Choice(*POLYMERS, properties={"price": {name: each[2] for name, each in POLYMERS.items()}}),
            "dose": Variable(0.0, 0.1, step=0.005),
        },
        outputs=["cold", "hot", "density"],
        minimize="0.82*light + 0.9*neutral + 1.25*heavy + 2.6*ester + polymer.price*dose",
        subject_to={
            "grade": "cold <= 4.3",
            "film": "hot >= 2.4",
            "density": "0.86 <= density <= 0.885",
            "volatility": "light <= 0.45 + 0.2*ester",
        },
        inputs={"density": ["light", "neutral", "heavy", "ester", "dose"]},
        value=1.122838709677236,
        at=[0.0, 0.8090322580635223, 0.1909677419364777, 0.0, "OCP", 0.03],
        source=ENUMERATED,
        feasible=None,
    )


PROCESSES: dict[str, Callable[[], Benchmark]] = {
    "distillation-column": column,
    "solvent-screening": screening,
    "coolant-blend": coolant,
    "lubricant-blend": lubricant,
}
"""Name to statement."""
