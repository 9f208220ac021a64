"""The ten constrained problems of the paper, as minimization, as stated in the literature.

Each private function is one black box h: it takes the variables in order, as numbers or as arrays, and returns its
outputs.
"""

from collections.abc import Callable

from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number
from pied.suite.unconstrained import box


def _bazaraa(x1: Number, x2: Number) -> tuple[Number, ...]:
    return (2 * x2**2, 2 * x1 * x2 + 6 * x1 + 4 * x2)


def bazaraa() -> Benchmark:
    """A convex quadratic over a wedge; both constraints are active."""
    return state(
        "bazaraa",
        _bazaraa,
        variables=box(2, 0.01, 1.0),
        outputs=["y1", "y2"],
        minimize="2*x1**2 + 2*x2**2 - y2",
        subject_to={"plane": "5*x1 + x2 <= 5", "parabola": "y1 <= x1"},
        inputs={"y1": ["x2"], "y2": ["x1", "x2"]},
        ranges={"y1": (0.0, None)},
        value=-6.613085467348788,
        at=[0.8682255312124217, 0.6588723439378913],
        source="proved: convex, optimality conditions solved to 40 digits",
        feasible=0.4228,
    )


def _spring(wire_diameter: Number, coil_diameter: Number, active_coils: Number) -> tuple[Number, ...]:
    return (wire_diameter**2 * coil_diameter, coil_diameter**3 * active_coils)


def spring() -> Benchmark:
    """The lightest spring that deflects enough without shearing, surging or growing too wide."""
    return state(
        "spring",
        _spring,
        variables={"wire_diameter": (0.05, 2.0), "coil_diameter": (0.25, 1.3), "active_coils": (2.0, 15.0)},
        outputs=["volume", "compliance"],
        minimize="(active_coils + 2)*volume",
        subject_to={
            "deflection": "compliance/(71785*wire_diameter**4) >= 1",
            "shear stress": "(4*coil_diameter**2 - wire_diameter*coil_diameter)"
            "/(12566*(wire_diameter**3*coil_diameter - wire_diameter**4)) + 1/(5108*wire_diameter**2) <= 1",
            "surge frequency": "140.45*wire_diameter*coil_diameter/compliance >= 1",
            "outer diameter": "(wire_diameter + coil_diameter)/1.5 <= 1",
        },
        inputs={"volume": ["wire_diameter", "coil_diameter"], "compliance": ["coil_diameter", "active_coils"]},
        ranges={"volume": (0.0, None), "compliance": (0.0, None)},
        value=0.012665232788319417,
        at=[0.05168906108276346, 0.3567177397994408, 11.28896575161334],
        source="many local searches agree with the literature's value; no formal proof",
        feasible=0.0074873,
    )


def _ex314(x1: Number, x2: Number, x3: Number) -> tuple[Number, ...]:
    return (4 * x1 - 2 * x2 + 2 * x3, x2 - x3 - 2 * x1)


def ex314() -> Benchmark:
    """A linear objective outside a convex quadratic: two isolated optimizers."""
    return state(
        "ex314",
        _ex314,
        variables={"x1": (-2.0, 2.0), "x2": (0.0, 6.0), "x3": (-3.0, 3.0)},
        outputs=["y1", "y2"],
        minimize="y2",
        subject_to={
            "quadratic": "x1*y1 + x2*(2*x2 - 2*x1 - x3) + x3*(2*x1 - x2 + 2*x3) - 20*x1 + 9*x2 - 13*x3 + 24 >= 0",
            "sum": "x1 + x2 + x3 <= 4",
            "edge": "3*x2 + x3 <= 6",
        },
        value=-4.0,
        at=[0.5, 0.0, 3.0],
        others=[[2.0, 0.0, 0.0]],
        source="proved: the reverse constraint is strictly convex and at most zero at every vertex of the better set",
        feasible=0.3107,
    )


def _rosen_suzuki(x1: Number, x2: Number, x3: Number, x4: Number) -> tuple[Number, ...]:
    return (2 * x3**2 - 21 * x3 + 7 * x4, x3**2 + 2 * x4**2)


def rosen_suzuki() -> Benchmark:
    """Convex; the optimum touches the box with a zero multiplier."""
    return state(
        "rosen-suzuki",
        _rosen_suzuki,
        variables=box(4, -2.0, 2.0),
        outputs=["y1", "y2"],
        minimize="x1**2 + x2**2 + x4**2 - 5*x1 - 5*x2 + y1",
        subject_to={
            "first": "x1**2 + x2**2 + x3**2 + x4**2 + x1 - x2 + x3 - x4 <= 8",
            "second": "x1**2 + 2*x2**2 + y2 - x1 - x4 <= 10",
            "third": "2*x1**2 + x2**2 + x3**2 + 2*x1 - x2 - x4 <= 5",
        },
        inputs={"y1": ["x3", "x4"], "y2": ["x3", "x4"]},
        code_inputs=["x3", "x4"],
        ranges={"y2": (0.0, None)},
        value=-44.0,
        at=[0.0, 1.0, 2.0, -1.0],
        source="proved: convex, optimality conditions hold",
        feasible=0.4328,
    )


def _st_bpv1(x1: Number, x2: Number, x3: Number, x4: Number) -> tuple[Number, ...]:
    return (x1 * x3, x1 + 3 * x2, 2 * x1 + x2)


def st_bpv1() -> Benchmark:
    """A bilinear program whose feasible set has no volume: x3 and x4 must sit on their bounds."""
    return state(
        "st-bpv1",
        _st_bpv1,
        variables={"x1": (0.0, 27.0), "x2": (0.0, 16.0), "x3": (0.0, 10.0), "x4": (0.0, 10.0)},
        outputs=["y1", "y2", "y3"],
        minimize="y1 + x2*x4",
        subject_to={
            "first": "y2 >= 30",
            "second": "y3 >= 20",
            "third": "x4 - 1.6667*x3 >= 10",
            "fourth": "x3 + x4 <= 15",
        },
        inputs={"y1": ["x1", "x3"], "y2": ["x1", "x2"], "y3": ["x1", "x2"]},
        code_inputs=["x1", "x2", "x3"],
        value=10.0,
        at=[27.0, 1.0, 0.0, 10.0],
        source="proved: the third constraint forces x3 = 0 and x4 = 10, the rest is linear",
        feasible=0.0,
    )


def _ex211(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number) -> tuple[Number, ...]:
    return (x1**2 + x2**2 + x3**2 + x4**2 + x5**2, 12 * x2 + 11 * x3 + 7 * x4)


def ex211() -> Benchmark:
    """A concave quadratic over a knapsack: the optimum is a vertex, and so are its rivals."""
    return state(
        "ex211",
        _ex211,
        variables=box(5, 0.0, 1.0),
        outputs=["y1", "y2"],
        minimize="42*x1 + 44*x2 + 45*x3 + 47*x4 + 47.5*x5 - 50*y1",
        subject_to={"knapsack": "20*x1 + y2 + 4*x5 <= 39"},
        inputs={"y2": ["x2", "x3", "x4"]},
        ranges={"y1": (0.0, None)},
        value=-17.0,
        at=[1.0, 1.0, 0.0, 1.0, 0.0],
        source="proved: concave, all vertices enumerated",
        feasible=0.9362,
    )


def _ex212(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number, x6: Number) -> tuple[Number, ...]:
    return (10.5 * x1 + 7.5 * x2 + 3.5 * x3 + 2.5 * x4 + 1.5 * x5, 10 * x1 + 10 * x3 + x6)


def ex212() -> Benchmark:
    """A concave quadratic with one long variable."""
    return state(
        "ex212",
        _ex212,
        variables=box(5, 0.0, 1.0) | {"x6": (0.0, 30.0)},
        outputs=["y1", "y2"],
        minimize="-10*x6 - y1 - 0.5*(x1**2 + x2**2 + x3**2 + x4**2 + x5**2)",
        subject_to={"knapsack": "6*x1 + 3*x2 + 3*x3 + 2*x4 + x5 <= 6.5", "supply": "y2 <= 20"},
        inputs={"y1": ["x1", "x2", "x3", "x4", "x5"], "y2": ["x1", "x3", "x6"]},
        value=-213.0,
        at=[0.0, 1.0, 0.0, 1.0, 1.0, 20.0],
        source="proved: concave, all vertices enumerated",
        feasible=0.1560,
    )


def _g09(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number, x6: Number, x7: Number) -> tuple[Number, ...]:
    return ((x1 - 10) ** 2 + 5 * (x2 - 12) ** 2, 3 * x2**4 + x3 + 4 * x4**2)


def g09() -> Benchmark:
    """A polynomial of degree six whose values span six decades; half a percent of the box is feasible."""
    return state(
        "g09",
        _g09,
        variables=box(7, -10.0, 10.0),
        outputs=["y1", "y2"],
        minimize="y1 + x3**4 + 3*(x4 - 11)**2 + 10*x5**6 + 7*x6**2 + x7**4 - 4*x6*x7 - 10*x6 - 8*x7",
        subject_to={
            "first": "2*x1**2 + y2 + 5*x5 <= 127",
            "second": "7*x1 + 3*x2 + 10*x3**2 + x4 - x5 <= 282",
            "third": "23*x1 + x2**2 + 6*x6**2 - 8*x7 <= 196",
            "fourth": "4*x1**2 + x2**2 - 3*x1*x2 + 2*x3**2 + 5*x6 - 11*x7 <= 0",
        },
        inputs={"y1": ["x1", "x2"], "y2": ["x2", "x3", "x4"]},
        code_inputs=["x1", "x2", "x3", "x4"],
        ranges={"y1": (0.0, None)},
        value=680.6300573744021,
        at=[
            2.33049937287957,
            1.951372372896889,
            -0.4775413923888716,
            4.36572623365581,
            -0.6244869705268175,
            1.0381310186079584,
            1.5942267116118685,
        ],
        source="every local search ends here, the literature's value; no formal proof",
        feasible=0.0052674,
    )


def _ex724(
    x1: Number, x2: Number, x3: Number, x4: Number, x5: Number, x6: Number, x7: Number, x8: Number
) -> tuple[Number, ...]:
    return (x3**0.71 * x5, 4 * x4 / x6 + 2 / (x4**0.71 * x6), 0.4 * (x1 / x7) ** 0.67 - x2)


def ex724() -> Benchmark:
    """A signomial program, all four constraints active; twelve points in a million are feasible."""
    return state(
        "ex724",
        _ex724,
        variables=box(8, 0.1, 10.0),
        outputs=["y1", "y2", "y3"],
        minimize="y3 + 0.4*(x2/x8)**0.67 - x1 + 10",
        subject_to={
            "first": "0.0588*x5*x7 + 0.1*x1 <= 1",
            "second": "0.0588*x6*x8 + 0.1*x1 + 0.1*x2 <= 1",
            "third": "4*x3/x5 + 2/y1 + 0.0588*x7/x3**1.3 <= 1",
            "fourth": "y2 + 0.0588*x4**1.3*x8 <= 1",
        },
        inputs={"y1": ["x3", "x5"], "y2": ["x4", "x6"], "y3": ["x1", "x2", "x7"]},
        code_inputs=["x1", "x2", "x3", "x4", "x5", "x6", "x7"],
        ranges={"y1": (0.0, None), "y2": (0.0, None)},
        value=3.918010228509841,
        at=[
            6.3457844820239035,
            2.341009375200534,
            0.6708685644229448,
            0.5347457169086581,
            5.9527935069983755,
            5.316398716705222,
            1.0439892185323945,
            0.42008583239118646,
        ],
        source="many local searches agree with the literature's value; no formal proof",
        feasible=1.2279e-05,
    )


def _ex216(*x: Number) -> tuple[Number, ...]:
    x1, x2, x3, x4, x5, x6 = x[:6]
    return (
        100 * (x1**2 + x2**2 + x3**2 + x4**2),
        -2 * x1 - 6 * x2 - x3 - 3 * x5 - 3 * x6,
        48 * x3 + 45 * x4 + 44 * x5 + 41 * x6,
        9 * x1 + 5 * x2 - 9 * x4 + x5 - 8 * x6,
    )


def ex216() -> Benchmark:
    """A concave quadratic in ten variables, its optimum a vertex with slack in every constraint."""
    white = "x5**2 + x6**2 + x7**2 + x8**2 + x9**2 + x10**2"
    return state(
        "ex216",
        _ex216,
        variables=box(10, 0.0, 1.0),
        outputs=["y1", "y2", "y3", "y4"],
        minimize=f"48*x1 + 42*x2 + y3 + 47*x7 + 42*x8 + 45*x9 + 46*x10 - 0.5*y1 - 50*({white})",
        subject_to={
            "first": "y2 - 2*x7 - 6*x8 - 2*x9 - 2*x10 + 4 <= 0",
            "second": "6*x1 - 5*x2 + 8*x3 - 3*x4 + x6 + 3*x7 + 8*x8 + 9*x9 - 3*x10 <= 22",
            "third": "-5*x1 + 6*x2 + 5*x3 + 3*x4 + 8*x5 - 8*x6 + 9*x7 + 2*x8 - 9*x10 + 6 <= 0",
            "fourth": "y4 + 3*x7 - 9*x8 - 9*x9 - 3*x10 + 23 <= 0",
            "fifth": "-8*x1 + 7*x2 - 4*x3 - 5*x4 - 9*x5 + x6 - 7*x7 - x8 + 3*x9 - 2*x10 + 12 <= 0",
        },
        inputs={
            "y1": ["x1", "x2", "x3", "x4"],
            "y2": ["x1", "x2", "x3", "x5", "x6"],
            "y3": ["x3", "x4", "x5", "x6"],
            "y4": ["x1", "x2", "x4", "x5", "x6"],
        },
        code_inputs=["x1", "x2", "x3", "x4", "x5", "x6"],
        ranges={"y1": (0.0, None)},
        value=-39.0,
        at=[1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0],
        source="proved: concave, all vertices enumerated",
        feasible=7.2777e-05,
    )


CONSTRAINED: dict[str, Callable[[], Benchmark]] = {
    "bazaraa": bazaraa,
    "spring": spring,
    "ex314": ex314,
    "rosen-suzuki": rosen_suzuki,
    "st-bpv1": st_bpv1,
    "ex211": ex211,
    "ex212": ex212,
    "g09": g09,
    "ex724": ex724,
    "ex216": ex216,
}
"""Name to statement, in the order of the paper's table."""
