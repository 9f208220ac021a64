"""The ten unconstrained problems of the paper, as minimization, as stated in the literature.

Each private function is one black box h: it takes the variables in order, as numbers or as arrays, and returns its
outputs.
"""

import math
from collections.abc import Callable

from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, cos, sin


def box(d: int, lo: float, hi: float) -> dict[str, tuple[float, float]]:
    """Return x1 .. xd with the same bounds."""
    return {f"x{j}": (lo, hi) for j in range(1, d + 1)}


def _booth(x1: Number, x2: Number) -> tuple[Number, ...]:
    return ((x1 + 2 * x2 - 7) ** 2,)


def booth() -> Benchmark:
    """Two squares of linear forms, one of them unknown."""
    return state(
        "booth",
        _booth,
        variables=box(2, -10.0, 10.0),
        outputs=["y1"],
        minimize="y1 + (2*x1 + x2 - 5)**2",
        ranges={"y1": (0.0, None)},
        value=0.0,
        at=[1.0, 3.0],
        source="proved: a sum of two squares, both zero",
    )


def _wolfe(x1: Number, x2: Number, x3: Number) -> tuple[Number, ...]:
    return ((x1**2 + x2**2 - x1 * x2) ** 0.75,)


def wolfe() -> Benchmark:
    """A cusp in the corner of the box: second derivatives of h are unbounded at the optimum."""
    return state(
        "wolfe",
        _wolfe,
        variables=box(3, 0.0, 2.0),
        outputs=["y1"],
        minimize="4*y1/3 + x3",
        inputs={"y1": ["x1", "x2"]},
        code_inputs=["x1", "x2"],
        ranges={"y1": (0.0, None)},
        value=0.0,
        at=[0.0, 0.0, 0.0],
        source="proved: a sum of non-negative terms, all zero",
    )


def _rastrigin(x1: Number, x2: Number, x3: Number) -> tuple[Number, ...]:
    return tuple(x**2 - 10 * cos(2 * math.pi * x) for x in (x1, x2))


def rastrigin() -> Benchmark:
    """A thousand basins; the optimum is the centre of the box (see the twin `shifted`)."""
    return state(
        "rastrigin",
        _rastrigin,
        variables=box(3, -5.0, 5.0),
        outputs=["y1", "y2"],
        minimize="y1 + y2 + 30 + x3**2 - 10*cos(2*pi*x3)",
        inputs={"y1": ["x1"], "y2": ["x2"]},
        code_inputs=["x1", "x2"],
        value=0.0,
        at=[0.0, 0.0, 0.0],
        source="proved: three terms, each at least zero, all zero",
    )


def _colville(x1: Number, x2: Number, x3: Number, x4: Number) -> tuple[Number, ...]:
    return (100 * (x1**2 - x2) ** 2 + (x3 - 1) ** 2 + (x1 - 1) ** 2,)


def colville() -> Benchmark:
    """A curved valley in four variables, three of them inside h."""
    return state(
        "colville",
        _colville,
        variables=box(4, -10.0, 10.0),
        outputs=["y1"],
        minimize="y1 + 90*(x3**2 - x4)**2 + 10.1*((x2 - 1)**2 + (x4 - 1)**2) + 19.8*(x2 - 1)*(x4 - 1)",
        inputs={"y1": ["x1", "x2", "x3"]},
        code_inputs=["x1", "x2", "x3"],
        ranges={"y1": (0.0, None)},
        value=0.0,
        at=[1.0, 1.0, 1.0, 1.0],
        source="proved: squares and a positive definite quadratic, all zero",
    )


def _friedman(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number) -> tuple[Number, ...]:
    return (sin(math.pi * x1 * x2),)


def friedman() -> Benchmark:
    """A sine of a product; the optimum is a continuum: x1 x2 in {0, 1}, x3 = 0.5, x4 = x5 = 0."""
    return state(
        "friedman",
        _friedman,
        variables=box(5, 0.0, 1.0),
        outputs=["y1"],
        minimize="10*y1 + 20*(x3 - 0.5)**2 + 10*x4 + 5*x5",
        inputs={"y1": ["x1", "x2"]},
        value=0.0,
        at=[0.0, 0.0, 0.5, 0.0, 0.0],
        others=[[1.0, 1.0, 0.5, 0.0, 0.0]],
        source="proved: a sum of non-negative terms, all zero",
    )


def _dolan(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number) -> tuple[Number, ...]:
    return ((x1 + 1.7 * x2) * sin(x1), 1.5 * x3 + 0.1 * x4 * cos(x5 + x4 - x1))


def dolan() -> Benchmark:
    """About thirty periods across the box in each of two directions."""
    return state(
        "dolan",
        _dolan,
        variables=box(5, -100.0, 100.0),
        outputs=["y1", "y2"],
        minimize="y1 - y2 + 0.2*x5**2 - x2 - 1",
        inputs={"y1": ["x1", "x2"], "y2": ["x1", "x3", "x4", "x5"]},
        value=-529.8714387324575,
        at=[98.96425831223839, 100.0, 100.0, 99.22432344984793, -0.2499873047680999],
        source="linear in x2 and x3, bounds on the rest, exhaustive grid of the two remaining basins; no formal proof",
    )


def _rosenbrock(x1: Number, x2: Number, x3: Number, x4: Number, x5: Number, x6: Number) -> tuple[Number, ...]:
    return (x2 - x1**2, x3 - x2**2, x4 - x3**2, (1 - x4) ** 2)


def rosenbrock() -> Benchmark:
    """The banana in six variables; the objective squares three outputs."""
    return state(
        "rosenbrock",
        _rosenbrock,
        variables=box(6, -2.0, 2.0),
        outputs=["y1", "y2", "y3", "y4"],
        minimize="100*(y1**2 + y2**2 + y3**2) + (1 - x1)**2 + (1 - x2)**2 + (1 - x3)**2 + y4"
        " + 100*(x5 - x4**2)**2 + 100*(x6 - x5**2)**2 + (1 - x5)**2",
        inputs={"y1": ["x1", "x2"], "y2": ["x2", "x3"], "y3": ["x3", "x4"], "y4": ["x4"]},
        code_inputs=["x1", "x2", "x3", "x4"],
        ranges={"y4": (0.0, None)},
        value=0.0,
        at=[1.0] * 6,
        source="proved: a sum of squares, all zero",
    )


def _zakharov(*x: Number) -> tuple[Number, ...]:
    return ((0.5 * sum(j * each for j, each in enumerate(x, start=1))) ** 2,)


def zakharov() -> Benchmark:
    """A narrow valley whose walls rise with the fourth power, to 2e8."""
    half = "0.5*(x1 + 2*x2 + 3*x3 + 4*x4 + 5*x5 + 6*x6 + 7*x7)"
    return state(
        "zakharov",
        _zakharov,
        variables=box(7, -5.0, 10.0),
        outputs=["y1"],
        minimize=f"x1**2 + x2**2 + x3**2 + x4**2 + x5**2 + x6**2 + x7**2 + (1 + y1)*({half})**2",
        ranges={"y1": (0.0, None)},
        value=0.0,
        at=[0.0] * 7,
        source="proved: a sum of squares, all zero",
    )


def _powell(
    x1: Number, x2: Number, x3: Number, x4: Number, x5: Number, x6: Number, x7: Number, x8: Number
) -> tuple[Number, ...]:
    return ((x1 + 10 * x2) ** 2, 5 * (x3 - x4) ** 2, (x6 - 2 * x7) ** 4, 10 * (x5 - x8) ** 4)


def powell() -> Benchmark:
    """A minimum with a singular Hessian: local solvers stop at |x| of about 1e-3."""
    return state(
        "powell",
        _powell,
        variables=box(8, -4.0, 5.0),
        outputs=["y1", "y2", "y3", "y4"],
        minimize="y1 + (x5 + 10*x6)**2 + y2 + 5*(x7 - x8)**2 + (x2 - 2*x3)**4 + y3 + 10*(x1 - x4)**4 + y4",
        inputs={"y1": ["x1", "x2"], "y2": ["x3", "x4"], "y3": ["x6", "x7"], "y4": ["x5", "x8"]},
        ranges={"y1": (0.0, None), "y2": (0.0, None), "y3": (0.0, None), "y4": (0.0, None)},
        value=0.0,
        at=[0.0] * 8,
        source="proved: a sum of even powers, all zero",
    )


def _styblinski_tang(*x: Number) -> tuple[Number, ...]:
    return tuple(0.5 * (each**4 - 16 * each**2 + 5 * each) for each in x[:4])


def styblinski_tang() -> Benchmark:
    """Nine separable quartics with two minima each: 512 basins."""
    white = " + ".join(f"0.5*(x{j}**4 - 16*x{j}**2 + 5*x{j})" for j in range(5, 10))
    return state(
        "styblinski-tang",
        _styblinski_tang,
        variables=box(9, -5.0, 5.0),
        outputs=["y1", "y2", "y3", "y4"],
        minimize=f"y1 + y2 + y3 + y4 + {white}",
        inputs={f"y{j}": [f"x{j}"] for j in range(1, 5)},
        code_inputs=["x1", "x2", "x3", "x4"],
        value=-352.49549133394277,
        at=[-2.903534027771177] * 9,
        source="proved: separable, the lower root of 4 x^3 - 32 x + 5 = 0 in every variable",
    )


UNCONSTRAINED: dict[str, Callable[[], Benchmark]] = {
    "booth": booth,
    "wolfe": wolfe,
    "rastrigin": rastrigin,
    "colville": colville,
    "friedman": friedman,
    "dolan": dolan,
    "rosenbrock": rosenbrock,
    "zakharov": zakharov,
    "powell": powell,
    "styblinski-tang": styblinski_tang,
}
"""Name to statement, in the order of the paper's table."""
