"""Equipment with sizes from catalogues and numbers of units: exchangers, tanks, extractors, heat pumps, membranes.

Each black box takes the variables in order, as numbers or as arrays (a choice by its place in the list). The models are
those of textbooks, with constants of our own; each function names its source. All optima were verified by enumeration
(`enumeration`).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy import ndarray

from pied.problem import Choice, Integer, Levels, Variable
from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, exp, on_arrays
from pied.suite.machines import ENUMERATED
from pied.suite.processes import of

# --- Shell-and-tube exchanger -----------------------------------------------------------------------------------------

WALL = 0.0021
"""Of the tubes, m."""
BUNDLES = {1.0: (0.319, 2.142), 2.0: (0.249, 2.207), 4.0: (0.175, 2.285), 6.0: (0.0743, 2.499)}
"""Constants of the bundle's diameter for each number of passes, triangular pitch of 1.25 diameters (Sinnott)."""


def _exchanger(tube: Number, length: Number, passes: Number, tubes: Number, spacing: Number) -> tuple[Number, ...]:
    """Return both films (W/m2 K) and both pressure drops (kPa), by Kern's method: 25 kg/s water, 15 kg/s oil."""
    return tuple(on_arrays(_kern, (tube, length, passes, tubes, spacing)))


def _kern(columns: list[ndarray]) -> list[ndarray]:
    tube, length, passes, tubes, spacing = columns
    bore = tube - 2 * WALL
    speed = 25.0 / 995.0 / (math.pi / 4 * bore**2 * tubes / passes)
    inside = 995.0 * speed * bore / 0.9e-3  # Reynolds number
    tube_film = 0.62 / bore * 0.023 * inside**0.8 * 6.1**0.4
    tube_drop = passes * (4 * 0.079 * inside**-0.25 * length / bore + 2.5) * 995.0 * speed**2 / 2e3
    factor, power = (np.select([passes == p for p in BUNDLES], [b[i] for b in BUNDLES.values()]) for i in range(2))
    shell = tube * (tubes / factor) ** (1 / power) + 0.05
    flux, equivalent = 15.0 / (0.2 * shell * spacing), 0.71 * tube
    outside = flux * equivalent / 2e-3
    shell_film = 0.13 / equivalent * 0.36 * outside**0.55 * 32.3 ** (1 / 3)
    friction = np.exp(0.576 - 0.19 * np.log(outside))
    shell_drop = friction * flux**2 * shell * (length / spacing) / (2 * 850.0 * equivalent) / 1e3
    return [tube_film, shell_film, tube_drop, shell_drop]


def exchanger() -> Benchmark:
    """The cheapest shell-and-tube exchanger from standard tubes: diameter, length, passes, number, baffle spacing.

    Films and pressure drops are h (Kern 1950). Area, fouling, the transferred heat and the cost are known.
    """
    return state(
        "tube-exchanger",
        _exchanger,
        variables={
            "tube": Levels(0.016, 0.02, 0.025, 0.03, 0.038, unit="m"),
            "length": Levels(2.44, 3.05, 3.66, 4.88, 6.1, unit="m"),
            "passes": Levels(1, 2, 4, 6),
            "tubes": Integer(40, 400, log=True),
            "spacing": Variable(0.1, 0.6, log=True, unit="m"),
        },
        outputs=["tube_film", "shell_film", "tube_drop", "shell_drop"],
        minimize="4 + 0.42*(3.141592653589793*tube*length*tubes)**0.8*(1 + 0.04*passes)"
        " + 0.09*tube_drop + 0.075*shell_drop",
        subject_to={
            "duty": "3.141592653589793*tube*length*tubes"
            "/(1/shell_film + 0.0005 + tube/(tube - 0.0042)*(1/tube_film + 0.0002))"
            " >= 22000 + 1600*(passes - 1)/passes",
            "tube drop": "tube_drop <= 60",
            "shell drop": "shell_drop <= 40",
            "baffles": "spacing <= length/4",
        },
        inputs={"tube_film": ["tube", "passes", "tubes"], "tube_drop": ["tube", "length", "passes", "tubes"]},
        ranges=dict.fromkeys(("tube_film", "shell_film", "tube_drop", "shell_drop"), (0.0, None)),
        value=14.877111974002796,
        at=[0.016, 3.66, 1.0, 259.0, 0.4536094717719078],
        source=ENUMERATED,
        feasible=None,
    )


# --- Cascade of stirred tanks -----------------------------------------------------------------------------------------


def _cascade(tanks: Number, volume: Number, flow: Number, T: Number) -> tuple[Number, ...]:
    """Return what is left of A and the B made, per A fed: A -> B -> C of first order in equal tanks (Levenspiel)."""

    def left(columns: list[ndarray]) -> list[ndarray]:
        tanks, volume, flow, T = columns
        slower = 1 / (T + 273.15) - 1 / 333.15
        k1, k2 = (volume / flow * k * np.exp(-e * slower) for k, e in ((1.9, 7300.0), (0.11, 9800.0)))
        A, B = np.ones_like(tanks), np.zeros_like(tanks)
        for tank in range(1, int(tanks.max()) + 1):
            A = np.where(tank <= tanks, A / (1 + k1), A)
            B = np.where(tank <= tanks, (B + k1 * A) / (1 + k2), B)
        return [A, B]

    return tuple(on_arrays(left, (tanks, volume, flow, T)))


def cascade() -> Benchmark:
    """A cascade of equal stirred tanks of standard volume: how many, how large, how hot, how much feed.

    Composition at the end is h; income, tanks and heating are known.
    """
    return state(
        "tank-cascade",
        _cascade,
        variables={
            "tanks": Integer(1, 10),
            "volume": Levels(0.5, 0.8, 1.25, 2.0, 3.15, 5.0, 8.0, 12.5, unit="m3", log=True),
            "flow": Variable(0.5, 6.0, unit="m3/h"),
            "T": Variable(20.0, 90.0, unit="C"),
        },
        outputs=["A", "B"],
        maximize="flow*(110*B - 38 - 0.12*(T - 20) - 45*(1 - A - B)) - 9*tanks*volume**0.6 - 4*tanks",
        subject_to={"residual": "A <= 0.04", "byproduct": "1 - A - B <= 0.12"},
        ranges={"A": (0.0, 1.0), "B": (0.0, 1.0)},
        value=83.61757776883766,
        at=[7.0, 5.0, 6.0, 45.4916654545131],
        source=ENUMERATED,
        feasible=None,
    )


# --- Extraction -------------------------------------------------------------------------------------------------------

EXTRACTANTS = {
    "MIBK": (1.9, 0.45, 1.7, 0.21, 0.019),
    "toluene": (1.0, 0.41, 0.75, 0.05, 0.0006),
    "EtOAc": (1.3, 0.40, 2.3, 0.42, 0.08),
    "MTBE": (1.2, 0.34, 1.5, 0.16, 0.048),
    "butanol": (1.5, 0.62, 3.1, 0.95, 0.073),
    "heptane": (0.9, 0.36, 0.2, 0.01, 0.0001),
}
"""Price, heat of recovery; and hidden: distribution of solute and of impurity at 30 C, solubility in water."""


def _extraction(solvent: Number, stages: Number, ratio: Number, T: Number) -> tuple[Number, ...]:
    """Return the fractions of solute left and of impurity taken, and the solvent lost (Kremser, any factor)."""

    def ends(columns: list[ndarray]) -> list[ndarray]:
        solvent, stages, ratio, T = columns
        solute, impurity, lost = (of([each[i] for each in EXTRACTANTS.values()], solvent) for i in (2, 3, 4))
        warm = T - 30.0

        def left(factor: ndarray) -> ndarray:
            total, power = np.ones_like(factor), np.ones_like(factor)
            for stage in range(1, int(stages.max()) + 1):
                power = np.where(stage <= stages, power * factor, 0.0)
                total = total + power
            return 1 / total

        return [
            left(ratio * solute * np.exp(-0.012 * warm)),
            1 - left(ratio * impurity * np.exp(0.018 * warm)),
            lost * np.exp(0.011 * warm) * (1 + 0.02 * ratio),
        ]

    return tuple(on_arrays(ends, (solvent, stages, ratio, T)))


def extraction() -> Benchmark:
    """Countercurrent extraction: which solvent, how many stages, how much and how warm.

    Solute left, impurity taken and solvent lost are h (Kremser's equation). Price and heat of recovery are known
    properties.
    """
    words = {"price": 0, "heat": 1}
    properties = {word: {name: each[i] for name, each in EXTRACTANTS.items()} for word, i in words.items()}
    return state(
        "extraction",
        _extraction,
        variables={
            "solvent": Choice(*EXTRACTANTS, properties=properties),
            "stages": Integer(2, 16),
            "ratio": Variable(0.3, 5.0, log=True),
            "T": Variable(15.0, 60.0, unit="C"),
        },
        outputs=["left", "taken", "lost"],
        minimize="60*left + 25*solvent.price*lost + 12*solvent.heat*ratio + 0.35*stages + 0.015*(T - 20)**2 + 9*taken",
        subject_to={"recovery": "left <= 0.03", "impurity": "taken <= 0.1"},
        inputs={"lost": ["solvent", "ratio", "T"]},
        ranges={"left": (0.0, 1.0), "taken": (0.0, 1.0), "lost": (0.0, None)},
        value=9.578378787896911,
        at=["MTBE", 9.0, 0.8021312946259697, 16.137741508822582],
        source=ENUMERATED,
        feasible=None,
    )


# --- Heat pump --------------------------------------------------------------------------------------------------------

REFRIGERANTS = {
    "R134a": (1430.0, 12.0, 101.0, 217.0, 1.11, 14.4),
    "R32": (675.0, 9.0, 78.0, 382.0, 1.24, 22.1),
    "R290": (3.0, 15.0, 96.7, 425.0, 1.13, 10.4),
    "R1234yf": (4.0, 55.0, 94.7, 180.0, 1.09, 17.6),
    "R600a": (3.0, 14.0, 134.7, 385.0, 1.09, 4.3),
    "R717": (0.0, 4.0, 132.3, 1370.0, 1.31, 3.5),
}
"""Warming potential, price per kg, critical point in C; and hidden: latent heat (kJ/kg), exponent, vapour density at
0 C (kg/m3)."""


def _heat_pump(refrigerant: Number, displacement: Number, cold: Number, warm: Number) -> tuple[Number, ...]:
    """Return the coefficient of performance, the heat delivered (kW) and the temperature after the compressor (C).

    Source at 5 C, sink at 50 C; `cold` and `warm` are the approaches of both exchangers. Trouton's rule for pressures,
    Watson's for the latent heat, isentropic compression with an efficiency that falls with the pressure ratio.
    """
    critical, latent, exponent, density = (of([e[i] for e in REFRIGERANTS.values()], refrigerant) for i in (2, 3, 4, 5))
    low, high = 5.0 - cold + 273.15, 50.0 + warm + 273.15
    ratio = exp(11.5 * (critical + 273.15) / 374.0 * (374.0 / low - 374.0 / high) / 1.28)
    efficiency = 0.82 - 0.035 * ratio
    reduced = (critical + 273.15 - high) / (critical + 273.15)
    heat = latent * (reduced / 0.28) ** 0.38
    after = low * (1 + (ratio ** (0.62 * (exponent - 1) / exponent) - 1) / efficiency)
    work = heat * (high / low - 1) / efficiency * (1 + 0.35 * (1 - reduced) ** 4)
    flow = displacement / 1e3 * density * exp(-0.032 * (273.15 - low)) * (1 - 0.03 * ratio)
    return ((heat + work) / work, flow * (heat + work), after - 273.15)


def heat_pump() -> Benchmark:
    """A heat pump: which refrigerant, which compressor of the catalogue, how large the exchangers.

    Performance, heat and discharge temperature are h (a cycle with rules of thumb for each fluid); prices and the
    warming potential are known properties.
    """
    words = {"gwp": 0, "price": 1}
    properties = {word: {name: each[i] for name, each in REFRIGERANTS.items()} for word, i in words.items()}
    return state(
        "heat-pump",
        _heat_pump,
        variables={
            "refrigerant": Choice(*REFRIGERANTS, properties=properties),
            "displacement": Levels(1.5, 2.2, 3.0, 4.1, 5.6, 7.5, 10.0, unit="l/s"),
            "cold": Variable(2.0, 15.0, unit="K"),
            "warm": Variable(2.0, 15.0, unit="K"),
        },
        outputs=["cop", "heat", "discharge"],
        minimize="180/cop + 2.2*displacement + 60/cold + 45/warm + 0.4*refrigerant.price",
        subject_to={
            "heat": "heat >= 14.5",
            "discharge": "discharge <= 105",
            "warming": "refrigerant.gwp*(1 + 0.1*displacement) <= 1000",
        },
        inputs={"cop": ["refrigerant", "cold", "warm"], "discharge": ["refrigerant", "cold", "warm"]},
        ranges={"cop": (1.0, None), "heat": (0.0, None)},
        value=91.94867443944109,
        at=["R290", 4.1, 4.428190488286138, 5.19007164234395],
        source=ENUMERATED,
        feasible=None,
    )


# --- Desalination -----------------------------------------------------------------------------------------------------


def _desalination(vessels: Number, elements: Number, pressure: Number, feed: Number) -> tuple[Number, ...]:
    """Return permeate (m3/h), its salt (g/l) and the pressure of the brine (bar), by solution and diffusion.

    Each element passes water by pressure above the osmotic one, and salt by its concentration with polarization.
    """

    def ends(columns: list[ndarray]) -> list[ndarray]:
        vessels, elements, pressure, feed = columns
        flow, salt, left = feed / vessels, np.full_like(feed, 35.0), pressure
        water, passed = np.zeros_like(feed), np.zeros_like(feed)
        for element in range(1, int(elements.max()) + 1):
            wall = 1.12 * salt
            driving = left - 0.76 * wall
            through = 0.9 * flow * np.tanh(0.0225 * 0.5 * (driving + np.sqrt(driving**2 + 4.0)) / flow)
            through = np.where(element <= elements, through, 0.0)
            escaped = np.where(element <= elements, 0.0044 * wall, 0.0)
            left = np.where(element <= elements, left - 0.012 * flow**1.7 / 4, left)
            salt = (flow * salt - escaped) / (flow - through)
            flow = flow - through
            water, passed = water + through, passed + escaped
        return [vessels * water, passed / water, left]

    return tuple(on_arrays(ends, (vessels, elements, pressure, feed)))


def desalination() -> Benchmark:
    """Reverse osmosis of sea water: vessels in parallel, elements in each, pressure and feed.

    Permeate, its salt and the pressure of the brine are h; energy with a turbine for the brine and membranes are known.
    """
    return state(
        "desalination",
        _desalination,
        variables={
            "vessels": Integer(2, 40),
            "elements": Integer(1, 8),
            "pressure": Variable(35.0, 80.0, unit="bar"),
            "feed": Variable(40.0, 300.0, log=True, unit="m3/h"),
        },
        outputs=["permeate", "salt", "brine"],
        minimize="(feed*pressure/0.85 - 0.8*(feed - permeate)*brine)/36*0.11 + 0.055*vessels*elements + 0.12*vessels"
        " + 0.012*feed",
        subject_to={
            "permeate": "permeate >= 50",
            "salt": "salt <= 0.4",
            "least feed": "feed >= 4*vessels",
            "most feed": "feed <= 16*vessels",
        },
        ranges={"permeate": (0.0, None), "salt": (0.0, None)},
        value=24.050264167220394,
        at=[11.0, 7.0, 77.30505103294753, 89.23726480750587],
        source=ENUMERATED,
        feasible=None,
    )


EQUIPMENT: dict[str, Callable[[], Benchmark]] = {
    "tube-exchanger": exchanger,
    "tank-cascade": cascade,
    "extraction": extraction,
    "heat-pump": heat_pump,
    "desalination": desalination,
}
"""Name to statement."""
