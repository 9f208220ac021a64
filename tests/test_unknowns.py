"""White boxes with unknowns of their own: equations that are solved inside of g."""

import logging
from pathlib import Path

import numpy as np
import pytest

from pied import Problem, StatementError, Study
from pied.rng import Stream
from pied.shell.statement_file import read
from pied.study.opening import stated as restored

BOX = {"a": (0.1, 1.0), "b": (0.5, 2.0)}
LOOP = {"unknowns": {"z": (0, 50)}, "equations": ["z*(2 + z) == k*(1 + z) + a"]}
ROOT = "((k - 2) + sqrt((2 - k)**2 + 4*(k + a)))/2"


def stated(**words):
    problem = {"maximize": "k*z - z**2 - a", "subject_to": {"c": "z <= 1.5"}, "ranges": {"k": (0, 5)}, "noise": 0}
    return Problem(BOX, ["k"], **{**problem, **LOOP, **words})


def explicit():
    limits = {"c": f"{ROOT} <= 1.5"}
    return stated(unknowns=None, equations=None, maximize=f"k*{ROOT} - ({ROOT})**2 - a", subject_to=limits)


def batch(problem, L=3, b=5):
    return problem.from_unit(Stream(1).uniform(b, problem.d)), 0.3 + 3 * Stream(2).uniform(L, b, problem.m)


def values_and_slopes(problem, X, Y):
    G, back = problem.traced(X, Y, tuple(range(problem.k)))
    return G, *back(np.ones_like(G))


def test_values_and_slopes_are_those_of_the_explicit_solution() -> None:
    X, Y = batch(explicit())
    for implicit, wanted in zip(values_and_slopes(stated(), X, Y), values_and_slopes(explicit(), X, Y), strict=True):
        assert implicit == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    by_function = stated(equations=[lambda x, y: y.z * (2 + y.z) - y.k * (1 + y.z) - x.a])
    assert by_function.traced(X, Y, (0,))[0] == pytest.approx(explicit().traced(X, Y, (0,))[0], rel=1e-9)


def test_several_unknowns_and_their_slopes_against_differences() -> None:
    words = {"unknowns": {"u": (0.01, 5), "v": (-3, 3)}, "equations": ["u**2 + v + sin(v) == 2*k", "u - v*b = a"]}
    problem = stated(maximize="u*v + k", subject_to=None, **words)
    X, Y = batch(problem)
    G, by_x, by_Y = values_and_slopes(problem, X, Y)
    assert np.isfinite(G).all()
    (Z,) = [problem._solved_for.solved(X, Y)]
    u, v, a, b = Z[..., 0], Z[..., 1], X[:, 0], X[:, 1]
    assert u**2 + v + np.sin(v) == pytest.approx(2 * Y[..., 0], rel=1e-10)
    assert u - v * b == pytest.approx(a + 0 * u, rel=1e-10)
    for j in range(2):
        step = 1e-6 * np.eye(2)[j]
        change = (problem.g(X + step, Y)[0] - problem.g(X - step, Y)[0]).sum(0) / 2e-6
        assert by_x[0, :, j] == pytest.approx(change, rel=1e-5, abs=1e-6)
    change = (problem.g(X, Y + 1e-6)[0] - problem.g(X, Y - 1e-6)[0]) / 2e-6
    assert by_Y[0, ..., 0] == pytest.approx(change, rel=1e-5, abs=1e-6)


def test_what_needs_no_output_stays_white_and_what_has_no_solution_counts_as_worst(caplog) -> None:
    white = stated(equations=["z**2 == a"], subject_to={"c": "z <= 0.9", "d": "z <= k"})
    assert [white.functions[place] for place in white.white] == ["c"]
    X, Y = batch(white)
    (value,) = white.g(X, Y, (1,))
    assert value == pytest.approx(0.9 - np.sqrt(X[:, 0]))
    narrow = stated(unknowns={"z": (0, 1)}, equations=["z == k"], subject_to=None, maximize="z + a")
    with caplog.at_level(logging.WARNING):
        (value,) = narrow.g(X, Y, (0,))
    assert (np.isnan(value) == (Y[..., 0] > 1)).all()
    assert "no solution was found in [0, 1]; they count as worst" in caplog.text
    pole = stated(unknowns={"z": (0, 1)}, equations=["1/(z - a) + k*0 == 0"])
    assert np.isnan(pole.g(X, Y, (0,))[0]).all()


def test_a_study_and_a_file_with_unknowns(tmp_path: Path) -> None:
    problem = stated(blackbox=lambda x: {"k": np.exp(0.5 * x.a) * x.b})
    assert Study(problem, seed=1, initial=2).run(3).x is not None
    again = restored(problem.statement())
    assert again is not None
    assert again.statement()["equations"] == problem.statement()["equations"]
    renamed = restored(problem.statement()).revised(unknowns={"z": [0, 40]})
    assert renamed.unknowns == {"z": (0, 40)}
    file = tmp_path / "loop.toml"
    file.write_text(
        'maximize = "k*z - z**2 - a"\nequations = ["z*(2 + z) == k*(1 + z) + a"]\n'
        "[variables]\na = [0.1, 1]\nb = [0.5, 2]\n[outputs]\nk = { range = [0, 5], noise = 0 }\n"
        "[unknowns]\nz = [0, 50]\n"
    )
    assert read(str(file)).problem.statement()["unknowns"] == {"z": [0, 50]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"equations": None}, "1 unknowns need as many equations, got 0"),
        ({"unknowns": None}, "There is no 'z'"),
        ({"unknowns": {"z": 3}}, "needs a range in which it is sought"),
        ({"unknowns": {"z": (3, 1)}}, "lower end 3 below its upper end 1"),
        ({"unknowns": {"a": (0, 1)}}, "a"),
        ({"equations": ["z == 100 + a"]}, r"No solution for 'z' was found in \[0, 50\]"),
        ({"equations": [3]}, "An equation should be a formula"),
        ({"models": {"k": "z*a"}}, "There is no 'z'"),
    ],
)
def test_what_cannot_be_solved_for_is_refused(words, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        stated(**words)
