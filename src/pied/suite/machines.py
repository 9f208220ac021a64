"""Machines and structures with standard sizes: vessels, gears, springs and beams whose sizes come from lists.

Each private function is one black box h: it takes the variables in order, as numbers or as arrays (a choice by its
place in the list), and returns its outputs. All optima were verified by enumeration (`enumeration`).
"""

import math
from collections.abc import Callable

from pied.problem import Choice, Integer, Levels, Variable
from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, sqrt

ENUMERATED = "enumeration of all settings, the continuous rest by local searches from many starts"
"""How the optima of this page are known."""
PRINTED = f"{ENUMERATED}; the literature's value"


# --- Pressure vessel --------------------------------------------------------------------------------------------------


def _vessel(shell: Number, head: Number, radius: Number, length: Number) -> tuple[Number, ...]:
    volume = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    seams = 3.1661 * shell**2 * length + 19.84 * shell**2 * radius
    return (volume, 0.6224 * shell * radius * length + seams)


def vessel() -> Benchmark:
    """The cheapest pressure vessel from plates in sixteenths of an inch (Sandgren 1990, Kannan and Kramer 1994).

    The shell is rolled plate, the heads are forged; all lengths in inches. Volume and cost of the shell are h, the
    rules for the thicknesses are known.
    """
    return state(
        "pressure-vessel",
        _vessel,
        variables={
            "shell": Variable(0.0625, 6.0, step=0.0625, unit="in"),
            "head": Variable(0.0625, 6.0, step=0.0625, unit="in"),
            "radius": Variable(10.0, 200.0, unit="in"),
            "length": Variable(10.0, 200.0, unit="in"),
        },
        outputs=["volume", "shell_cost"],
        minimize="shell_cost + 1.7781*head*radius**2",
        subject_to={
            "shell thickness": "shell >= 0.0193*radius",
            "head thickness": "head >= 0.00954*radius",
            "volume": "volume >= 1296000",
        },
        inputs={"volume": ["radius", "length"], "shell_cost": ["shell", "radius", "length"]},
        ranges={"volume": (0.0, None), "shell_cost": (0.0, None)},
        value=6059.714335048436,
        at=[0.8125, 0.4375, 42.09844559585492, 176.63659584243933],
        source=PRINTED,
        feasible=None,
    )


# --- Speed reducer ----------------------------------------------------------------------------------------------------


def _reducer(
    width: Number, module: Number, teeth: Number, l1: Number, l2: Number, d1: Number, d2: Number
) -> tuple[Number, ...]:
    gears = 0.7854 * width * module**2 * (3.3333 * teeth**2 + 14.9334 * teeth - 43.0934)
    stress1 = sqrt((745 * l1 / (module * teeth)) ** 2 + 16.9e6) / (0.1 * d1**3)
    stress2 = sqrt((745 * l2 / (module * teeth)) ** 2 + 157.5e6) / (0.1 * d2**3)
    return (gears, stress1, stress2, 1.93 * l1**3 / (module * teeth * d1**4), 1.93 * l2**3 / (module * teeth * d2**4))


def reducer() -> Benchmark:
    """The lightest gear box with a whole number of teeth (Golinski 1970; both shafts 7.3 to 8.3 between bearings).

    With 7.8 as the shorter end of the second shaft the optimum is 2996.348 instead. The mass of the gears and the
    stresses and deflections of the shafts are h; the rest is known.
    """
    return state(
        "speed-reducer",
        _reducer,
        variables={
            "width": Variable(2.6, 3.6, unit="cm"),
            "module": Variable(0.7, 0.8, unit="cm"),
            "teeth": Integer(17, 28),
            "l1": Variable(7.3, 8.3, unit="cm"),
            "l2": Variable(7.3, 8.3, unit="cm"),
            "d1": Variable(2.9, 3.9, unit="cm"),
            "d2": Variable(5.0, 5.5, unit="cm"),
        },
        outputs=["gears", "stress1", "stress2", "deflection1", "deflection2"],
        minimize="gears - 1.508*width*(d1**2 + d2**2) + 7.4777*(d1**3 + d2**3) + 0.7854*(l1*d1**2 + l2*d2**2)",
        subject_to={
            "bending of teeth": "width*module**2*teeth >= 27",
            "contact of teeth": "width*module**2*teeth**2 >= 397.5",
            "first deflection": "deflection1 <= 1",
            "second deflection": "deflection2 <= 1",
            "first stress": "stress1 <= 1100",
            "second stress": "stress2 <= 850",
            "space": "module*teeth <= 40",
            "wide enough": "width >= 5*module",
            "slim enough": "width <= 12*module",
            "first shaft": "l1 >= 1.5*d1 + 1.9",
            "second shaft": "l2 >= 1.1*d2 + 1.9",
        },
        inputs={
            "gears": ["width", "module", "teeth"],
            "stress1": ["module", "teeth", "l1", "d1"],
            "stress2": ["module", "teeth", "l2", "d2"],
            "deflection1": ["module", "teeth", "l1", "d1"],
            "deflection2": ["module", "teeth", "l2", "d2"],
        },
        ranges=dict.fromkeys(("gears", "stress1", "stress2", "deflection1", "deflection2"), (0.0, None)),
        value=2994.4710661468202,
        at=[3.5, 0.7, 17.0, 7.3, 7.715319911478245, 3.3502146660964476, 5.286654464980222],
        source=PRINTED,
        feasible=None,
    )


# --- Coil spring ------------------------------------------------------------------------------------------------------

WIRES = (
    0.009, 0.0095, 0.0104, 0.0118, 0.0128, 0.0132, 0.014, 0.015, 0.0162, 0.0173, 0.018, 0.02, 0.023, 0.025, 0.028,
    0.032, 0.035, 0.041, 0.047, 0.054, 0.063, 0.072, 0.08, 0.092, 0.105, 0.12, 0.135, 0.148, 0.162, 0.177, 0.192,
    0.207, 0.225, 0.244, 0.263, 0.283, 0.307, 0.331, 0.362, 0.394, 0.4375, 0.5,
)  # fmt: skip
"""Standard diameters of spring wire, inches (Sandgren 1990)."""


def _coil_spring(coils: Number, diameter: Number, wire: Number) -> tuple[Number, ...]:
    index = diameter / wire
    curvature = (4 * index - 1) / (4 * index - 4) + 0.615 / index
    stress = 8 * curvature * 1000 * diameter / (math.pi * wire**3)
    return (stress, 8 * coils * diameter**3 / (11.5e6 * wire**4))


def coil_spring() -> Benchmark:
    """The least wire for a compression spring: whole coils, standard wires (Sandgren 1990).

    Stress at 1000 lb and deflection per pound are h. The free length minus the deflection is the solid length, so
    Sandgren's constraint on it holds with equality everywhere and is left out.
    """
    return state(
        "coil-spring",
        _coil_spring,
        variables={
            "coils": Integer(1, 32),
            "diameter": Variable(0.6, 3.0, unit="in"),
            "wire": Levels(*WIRES, unit="in", log=True),
        },
        outputs=["stress", "softness"],
        minimize="2.46740110027234*diameter*wire**2*(coils + 2)",
        subject_to={
            "stress": "stress <= 189000",
            "free length": "1000*softness + 1.05*(coils + 2)*wire <= 14",
            "wire": "wire >= 0.2",
            "outer diameter": "diameter + wire <= 3",
            "index": "diameter >= 3*wire",
            "preload": "300*softness <= 6",
            "travel": "700*softness >= 1.25",
        },
        inputs={"stress": ["diameter", "wire"]},
        ranges={"stress": (0.0, None), "softness": (0.0, None)},
        value=2.658559165965501,
        at=[9.0, 1.2230410099619213, 0.283],
        source=PRINTED,
        feasible=None,
    )


# --- Reinforced concrete beam -----------------------------------------------------------------------------------------

STEELS = (
    0.2, 0.31, 0.4, 0.44, 0.6, 0.62, 0.79, 0.8, 0.88, 0.93, 1.0, 1.2, 1.24, 1.32, 1.4, 1.55, 1.58, 1.6, 1.76, 1.8, 1.86,
    2.0, 2.17, 2.2, 2.37, 2.4, 2.48, 2.6, 2.64, 2.79, 2.8, 3.0, 3.08, 3.1, 3.16, 3.41, 3.52, 3.6, 3.72, 3.95, 3.96, 4.0,
    4.03, 4.2, 4.34, 4.4, 4.65, 4.74, 4.8, 4.84, 5.0, 5.28, 5.4, 5.53, 5.72, 6.0, 6.16, 6.32, 6.6, 7.11, 7.2, 7.8, 7.9,
    8.0, 8.4, 8.69, 9.0, 9.48, 10.27, 11.0, 11.06, 11.85, 12.0, 13.0, 14.0, 15.0,
)  # fmt: skip
"""Areas of reinforcement that bars of standard sizes make, square inches (Amir and Hasegawa 1989)."""


def _concrete_beam(steel: Number, depth: Number, width: Number) -> tuple[Number, ...]:
    return (7.375 * steel**2 / width, 0.6 * depth * width)


def concrete_beam() -> Benchmark:
    """The cheapest reinforced beam: bars of standard sizes, a whole depth in inches (Amir and Hasegawa 1989).

    What the zone under pressure takes from the lever arm of the steel, and the cost of the concrete, are h.
    """
    return state(
        "concrete-beam",
        _concrete_beam,
        variables={
            "steel": Levels(*STEELS, unit="in2"),
            "depth": Integer(28, 40, unit="in"),
            "width": Variable(5.0, 10.0, unit="in"),
        },
        outputs=["lost", "concrete"],
        minimize="29.4*steel + concrete",
        subject_to={"slenderness": "depth <= 4*width", "moment": "steel*depth - lost >= 180"},
        inputs={"lost": ["steel", "width"], "concrete": ["depth", "width"]},
        ranges={"lost": (0.0, None), "concrete": (0.0, None)},
        value=359.208,
        at=[6.32, 34.0, 8.5],
        source=PRINTED,
        feasible=None,
    )


# --- Gear train -------------------------------------------------------------------------------------------------------


def _gear_train(a: Number, b: Number, c: Number, d: Number) -> tuple[Number, ...]:
    return (a / c, b / d)


def gear_train() -> Benchmark:
    """Four gears for a ratio of 1 to 6.931 (Sandgren 1990): 5.8 million settings, all of them whole numbers.

    The literature squares the error of the ratio (2.700857e-12 at the optimum). Almost any setting is good in that
    measure; here it is the error itself, in parts of the wanted ratio.
    """
    return state(
        "gear-train",
        _gear_train,
        variables={name: Integer(12, 60) for name in "abcd"},
        outputs=["first", "second"],
        minimize="abs(6.931*first*second - 1)",
        inputs={"first": ["a", "c"], "second": ["b", "d"]},
        ranges={"first": (0.0, None), "second": (0.0, None)},
        value=6.931 * math.sqrt(2.700857148886513e-12),
        at=[19.0, 16.0, 43.0, 49.0],
        others=[[16.0, 19.0, 43.0, 49.0], [19.0, 16.0, 49.0, 43.0], [16.0, 19.0, 49.0, 43.0]],
        source=PRINTED,
        feasible=None,
    )


# --- Welded beam ------------------------------------------------------------------------------------------------------

METALS = {
    "steel": {"strength": 30e3, "modulus": 30e6, "shear": 12e6, "weld": 0.1047, "bar": 0.0481},
    "cast iron": {"strength": 8e3, "modulus": 14e6, "shear": 6e6, "weld": 0.0489, "bar": 0.0224},
    "aluminium": {"strength": 5e3, "modulus": 10e6, "shear": 4e6, "weld": 0.5235, "bar": 0.2405},
    "brass": {"strength": 8e3, "modulus": 16e6, "shear": 6e6, "weld": 0.5584, "bar": 0.2566},
}
"""Design stress and moduli in psi, costs of weld and bar in dollars per cubic inch."""
LOAD, OVERHANG = 6000.0, 14.0
"""Pounds at the end of the beam, and its free length in inches."""


def _welded_beam(
    metal: Number, sides: Number, weld: Number, joint: Number, height: Number, thickness: Number
) -> tuple[Number, ...]:
    """Return the shear stress in the weld from the load and from its moment; fillets on two sides or on all four."""
    around = 1.0 * (sides > 0.5)
    throat, apart = weld / math.sqrt(2), weld + height
    direct = LOAD / (2 * throat * (joint + around * height))
    polar = throat * (around * (joint + height) ** 3 + (1 - around) * joint * (3 * apart**2 + joint**2)) / 6
    return (direct, LOAD * (OVERHANG + joint / 2) * sqrt(joint**2 + apart**2) / 2 / polar)


def welded_beam() -> Benchmark:
    """The cheapest welded beam: metal, weld on two or four sides, sizes in parts of an inch (after Deb 1996).

    The two stresses in the weld (Shigley's fillet welds in torsion) are h. The metal's properties are known numbers:
    bending, deflection and buckling are formulas of them.
    """
    properties = {word: {name: each[word] for name, each in METALS.items()} for word in METALS["steel"]}
    sides = {"extra": {"two sides": 0.0, "four sides": 1.0}}
    return state(
        "welded-beam",
        _welded_beam,
        variables={
            "metal": Choice(*METALS, properties=properties),
            "sides": Choice("two sides", "four sides", properties=sides),
            "weld": Variable(0.125, 1.0, step=0.0625, unit="in"),
            "joint": Variable(0.5, 10.0, unit="in"),
            "height": Variable(2.0, 12.0, step=0.5, unit="in"),
            "thickness": Variable(0.125, 2.0, step=0.125, unit="in"),
        },
        outputs=["direct", "twist"],
        minimize="(1 + metal.weld)*weld**2*(joint + sides.extra*height) + metal.bar*height*thickness*(14 + joint)",
        subject_to={
            "shear": "sqrt(direct**2 + 2*direct*twist*joint/sqrt(joint**2 + (weld + height)**2) + twist**2)"
            " <= 0.577*metal.strength",
            "bending": "504000/(height**2*thickness) <= metal.strength",
            "deflection": "65856000/(metal.modulus*height**3*thickness) <= 0.25",
            "buckling": "4.013*height*thickness**3/1176*sqrt(metal.modulus*metal.shear)"
            "*(1 - height/56*sqrt(metal.modulus/metal.shear)) >= 6000",
            "seat": "weld <= thickness",
        },
        inputs={name: ["sides", "weld", "joint", "height"] for name in ("direct", "twist")},
        ranges={"direct": (0.0, None), "twist": (0.0, None)},
        value=2.003493180653304,
        at=["steel", "four sides", 0.1875, 1.7185637878751074, 8.5, 0.25],
        source=ENUMERATED,
        feasible=None,
    )


MACHINES: dict[str, Callable[[], Benchmark]] = {
    "pressure-vessel": vessel,
    "speed-reducer": reducer,
    "coil-spring": coil_spring,
    "concrete-beam": concrete_beam,
    "gear-train": gear_train,
    "welded-beam": welded_beam,
}
"""Name to statement."""
