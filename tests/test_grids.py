"""Steps and rounded settings: proposals, initial design and recommendation lie on the grid."""

import itertools

import numpy as np
import pytest

from pied import Choice, Integer, Levels, Problem, Study, Variable
from pied.errors import SettingError, SolverDone, StatementError
from pied.problem import Grid
from pied.rng import Stream
from pied.search import Mixed, Search
from pied.solvers.initial import initial_design
from shells import LAB, data, pied_


def stepped(**words):
    """A problem of two stepped settings, with an exact black box and a known limit."""
    variables = {"t": Variable(60, 100, step=5), "p": Variable(0.5, 3.0, round=1)}
    words = {"maximize": "y - 0.01*(t - 78)**2", "subject_to": ["t + 10*p <= 103"], "noise": 0} | words
    return Problem(variables, ["y"], blackbox=lambda x: np.sin(x["p"]) + x["t"] / 100, **words)


def on_grid(value, lo, step):
    return (value - lo) / step == pytest.approx(round((value - lo) / step), abs=1e-9)


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        (Variable(0, 0.3, step=0.1), [0, 0.1, 0.2, 0.3]),
        (Variable(62, 77, step=5), [62, 67, 72, 77]),
        (Integer(3, 6), [3, 4, 5, 6]),
        (Levels(28, 10, 15.5), [10, 15.5, 28]),
        (Variable(0.25, 0.5, round=1), [0.3, 0.4, 0.5]),
        (Variable(0, 1, step=1 / 3), [0, 1 / 3, 2 / 3, 1]),
        (Variable(10, 1000, log=True, round=-2), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]),
        (Variable(-2.4, 1.7, round=0), [-2, -1, 0, 1]),
    ],
)
def test_values_of_a_step_are_those_a_person_would_write(variable, values):
    assert variable.levels() == pytest.approx(values, rel=1e-12, abs=0)
    assert all(len(repr(each)) <= 18 for each in variable.levels())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"step": 0}, "above 0"),
        ({"step": 7, "round": 1}, "leave one of them out"),
        ({"step": 50}, "fewer than two values"),
        ({"step": 15}, "let the range end at 90 or 105"),
        ({"step": 5, "whole": True}, "leave one of them out"),
        ({"step": 1e-9}, "makes no difference"),
        ({"round": 20}, "digits after the point"),
    ],
)
def test_senseless_step_is_refused(words, said):
    with pytest.raises(StatementError, match=said):
        Variable(60, 100, **words)


def test_initial_design_lies_on_the_grid_and_meets_the_known_limit():
    problem = stepped()
    X = np.array([problem.natural(u) for u in initial_design(problem, Stream(3))[:20]])
    assert len(np.unique(X, axis=0)) == 20
    assert set(X[:, 0]) <= set(range(60, 101, 5))
    assert (X[:, 0] + 10 * X[:, 1] <= 103).all()


def test_every_proposal_of_a_small_grid_is_new_on_the_grid_and_ends_at_its_optimum():
    problem = stepped()
    study = Study(problem, seed=4)
    result = study.run(14)
    values = [tuple(trial.x.values()) for trial in study.trials]
    assert len(set(values)) == len(values)
    levels = [each.levels() for each in problem.variables.values()]
    assert all(t in levels[0] and p in levels[1] for t, p in values)
    assert all(t + 10 * p <= 103 + 1e-9 for t, p in values)
    g = {(t, p): np.sin(p) + t / 100 - 0.01 * (t - 78) ** 2 for t, p in itertools.product(*levels) if t + 10 * p <= 103}
    assert result.value == pytest.approx(max(g.values()), abs=1e-9)
    assert tuple(result.x.values()) in g


def test_a_continuous_setting_beside_a_stepped_one_is_solved_exactly():
    problem = Problem(
        {"n": Variable(1, 20, step=1), "s": (0.0, 1.0)},
        ["y"],
        blackbox=lambda x: -((x["n"] - 7.4) ** 2) / 50,
        maximize="y - (s - 0.05*n)**2",
        subject_to=["s <= 0.33"],
        inputs=["n"],
        noise=0,
    )
    study = Study(problem, seed=1)
    result = study.run(7)
    assert all(trial.x["n"] == round(trial.x["n"]) for trial in study.trials)
    assert result.x["n"] == 7
    assert result.value == pytest.approx(-(0.4**2) / 50 - (0.33 - 0.35) ** 2, abs=1e-4)


def test_noisy_recommendation_lies_on_a_large_grid():
    problem = Problem(
        {name: Variable(0, 10, step=0.05) for name in "ab"},
        ["y"],
        maximize="y",
        subject_to=["a + b <= 7.77"],
        noise=0.1,
    )
    assert problem.listing is None
    study = Study(problem, seed=2)
    for place in range(7):
        trial = study.ask()
        study.tell(trial, {"y": trial.x["a"] - (trial.x["b"] - 3) ** 2 + 0.01 * (-1) ** place})
    x = study.result("anywhere").x
    for point in (*(trial.x for trial in study.trials), x):
        assert all(on_grid(each, 0, 0.05) for each in point.values())
        assert point["a"] + point["b"] <= 7.77 + 1e-9


def test_old_data_off_the_grid_are_used_and_not_recommended():
    study = Study(stepped(subject_to=None), seed=4)
    study.add({"t": 78, "p": 1.57}, {"y": 1.78})
    study.add({"t": 80, "p": 1.5}, {"y": 1.797})
    assert dict(study.result().x) == {"t": 80, "p": 1.5}


def test_exhausted_grid_is_done():
    problem = Problem({"a": Variable(0, 2, step=1)}, ["y"], blackbox=lambda x: -x["a"], maximize="y", noise=0)
    study = Study(problem, seed=1)
    assert study.run(5).value == 0
    assert study.used == 3
    with pytest.raises(SolverDone):
        study.ask()


def test_solver_of_a_whole_box_is_refused():
    with pytest.raises(SettingError, match="settings with a step"):
        Study(stepped(), solver="snobfit")


class Bowl:
    """Minus the distance to a point off the grid, and a limit known exactly."""

    k, white = 2, (1,)

    def values(self, U):
        return self.values_and_slopes(U)[0]

    def values_and_slopes(self, U):
        aim, normal = np.array([0.44, 0.72, 0.13]), np.array([1.0, 1.0, 0.3])
        f = np.stack([-((U - aim) ** 2 * [1, 4, 2]).sum(1), 1.0 - U @ normal], 1)
        J = np.stack([-2 * (U - aim) * [1, 4, 2], np.broadcast_to(-normal, U.shape)], 1)
        return f, J


def test_mixed_search_finds_the_best_point_of_a_grid_that_meets_the_limit():
    grid = Grid.of([Variable(0, 1, step=0.1)] * 3)
    mixed = Mixed(Search(), grid, np.zeros((0, 3)))
    pool = mixed.screen(Stream(0), 3, np.zeros((0, 3)))[:30]
    every = np.array(list(itertools.product(*grid.places)))
    f = Bowl().values(every)
    order = np.argsort(np.where(f[:, 1] >= 0, -f[:, 0], np.inf), kind="stable")
    best = mixed.solve(Bowl(), np.ones(2), pool, pool[:0], Stream(0))
    assert best.f[0] == pytest.approx(f[order[0], 0])
    assert best.f[1] >= 0
    again = Mixed(mixed.inner, grid, every[order[:1]]).solve(Bowl(), np.ones(2), pool, pool[:0], Stream(0))
    assert again.f[0] == pytest.approx(f[order[1], 0])


def test_a_level_close_beside_others_is_tried_though_no_point_of_the_pool_has_it():
    grid = Grid.of([Levels(0.0, 0.719, 0.72, 0.721, 1.0), Variable(0, 1), Variable(0, 1)])
    mixed = Mixed(Search(), grid, np.zeros((0, 3)))
    pool = np.array([[0.0, 0.9, 0.9], [1.0, 0.1, 0.1]])
    turned = Turned()
    best = mixed.near(turned, np.ones(2), pool[0], pool)
    assert best.u[0] == pytest.approx(0.72)


class Turned(Bowl):
    """The bowl with its coordinates in another order, and a penalty that leaves one level alone."""

    def values_and_slopes(self, U):
        f, J = super().values_and_slopes(U[:, [1, 0, 2]])
        J = J[:, :, [1, 0, 2]]
        wave = np.abs(U[:, 0] - 0.72) > 1e-6
        f[:, 0] -= wave
        return f, J


class Counted:
    """A smooth function with a label of its own height and ridges across the numbers, and how often it was called."""

    k, white = 1, ()

    def __init__(self, grid, seed):
        draw = np.random.default_rng(seed)
        d = len(grid.places)
        self.calls, self.grid, self.aim = 0, grid, draw.random(d)
        self.mix = np.linalg.qr(draw.normal(size=(d, d)))[0]
        self.weights = 0.3 + draw.random(d)
        self.heights = 0.1 * draw.random(len(grid.places[0]))

    def values(self, U):
        return self.values_and_slopes(U)[0]

    def values_and_slopes(self, U):
        self.calls += 1
        away = (U - self.aim) @ self.mix
        f = self.heights[self.grid.rows(U)[:, 0]] - (self.weights * away**2).sum(1)
        return f[:, None], (-2.0 * (self.weights * away) @ self.mix.T)[:, None]


def sought(sizes, continuous, seed):
    """The best point that a search of such a grid finds, its function and grid; the first coordinate is a label."""
    variables = [Choice(*"ABCDEFGH"[: sizes[0]]), *(Integer(1, size) for size in sizes[1:])]
    grid = Grid.of([*variables, *(Variable(0, 1) for _ in range(continuous))])
    functions, none = Counted(grid, seed), np.zeros((0, len(sizes) + continuous))
    mixed = Mixed(Search(pool=128), grid, none)
    pool = mixed.screen(Stream(seed), len(sizes) + continuous, none)
    return mixed.solve(functions, np.ones(1), pool, none, Stream(seed)), functions, grid


def test_search_of_a_grid_is_as_good_as_comparing_all_its_points():
    lost = []
    for seed in range(8):
        best, functions, grid = sought((4, 12, 15), 0, seed)
        every = np.array(list(itertools.product(*grid.places)))
        lost.append(functions.values(every).max() - best.f[0])
    assert np.median(lost) <= 1e-12
    assert max(lost) <= 1e-2


def test_search_beside_continuous_settings_is_as_good_as_solving_in_every_one():
    lost = []
    for seed in range(6):
        best, functions, grid = sought((3, 9, 8), 1, seed)
        rest = np.linspace(0, 1, 401)
        every = np.array(list(itertools.product(*grid.places[:-1], rest)))
        lost.append(functions.values(every).max() - best.f[0])
    assert np.median(lost) <= 1e-8
    assert max(lost) <= 1e-2


@pytest.mark.parametrize("continuous", [0, 2])
def test_a_thousand_times_as_many_settings_are_not_a_thousand_times_the_work(continuous):
    _, few, _ = sought((4, 8, 8, 8), continuous, 1)
    best, many, grid = sought((4, 80, 80, 80), continuous, 1)
    assert grid.has(best.u[None]).all()
    assert many.calls <= 3 * few.calls


def test_a_limit_on_labels_and_numbers_alone_may_hold_with_nothing_to_spare():
    """No other coordinate can move inside it, and the solves must end there all the same."""
    grid = Grid.of([Integer(0, 10), Integer(0, 10), Variable(0, 1), Variable(0, 1)])

    class Sum(Bowl):
        k, white = 3, (1, 2)

        def values_and_slopes(self, U):
            aim, slopes = np.array([0.9, 0.9, 0.3, 0.6]), -np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
            f = np.concatenate([-((U - aim) ** 2).sum(1)[:, None], [1.0, 0.5] + U @ slopes.T], 1)
            J = np.concatenate([-2 * (U - aim)[:, None], np.broadcast_to(slopes, (len(U), 2, 4))], 1)
            return f, J

    mixed = Mixed(Search(), grid, np.zeros((0, 4)))
    pool = mixed.screen(Stream(0), 4, np.zeros((0, 4)))
    best = mixed.solve(Sum(), np.ones(3), pool, pool[:0], Stream(0))
    assert best.satisfied
    assert best.f[0] == pytest.approx(-(2 * 0.4**2 + 2 * 0.2**2), abs=1e-6)


def test_statement_without_steps_is_stored_as_before():
    assert Variable(0, 1, unit="K").stated() == {"lo": 0.0, "hi": 1.0, "log": False, "unit": "K"}
    assert Variable(0, 1, step=0.5).stated()["step"] == 0.5


def test_shell_asks_on_the_grid_and_says_which_values_there_are(tmp_path):
    file = str(tmp_path / "lab.toml")
    text = LAB.replace('unit = "degC" }', 'unit = "degC", step = 5 }').replace(
        "[0.5, 6]", "{ lo = 0.5, hi = 6, round = 1 }"
    )
    (tmp_path / "lab.toml").write_text(text)
    assert "9 values: 60, 65 .. 100" in pied_("check", file).output
    for trial in data("ask", file, "--count", "4"):
        assert trial["x"]["temperature"] % 5 == 0
        assert len(str(trial["x"]["time"])) <= 3
    (tmp_path / "lab.toml").write_text(text.replace("step = 5", "step = 50"))
    assert "fewer than two values" in pied_("check", file, code=2).output
