"""The optimistic and the linearized rivals: known values on affine problems, and properties of every rival."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from pied import CUQB, Problem, SettingError, Status, Study, solve
from pied.bounds import quantile
from pied.bounds.believer import optimistic
from pied.bounds.joint import Joint
from pied.records.trial import State, feasible
from pied.rivals.linearized import COBALT, COBALTRun, DeltaBounds, Trusting, linearized
from pied.rivals.optimism import BoxRun, PenalizedQuantile
from pied.rng import Stream
from pied.search.multistart import Search
from pied.solvers import make
from pied.solvers.acquisition import Points
from pied.solvers.scene import Scene
from rivals import BELIEVER, FAST, SEARCH, affine, believed, quick, slopes_by_difference
from tiny import distance, few, hill, parabola, points, waves, without

Z95 = quantile.normal(0.95)
RIVALS = [name for name in FAST if name != "scbo"]  # which has a test of its own
MOST = few(sorted(RIVALS, key=["box", "cobalt", "logei-cf"].__contains__, reverse=True), 2)


# ----------------------------------------------------------------------------------------------------------- EPBO


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "words"),
    [(hill, {}), (waves, {"verify_every": None, **without("widen", "tell")}), (affine, {})],
    ids=["hill", "waves", "affine"],
)
def test_epbo_is_cuqb_on_the_folded_problem(stated: Any, words: dict[str, Any]) -> None:
    same = {"believer": BELIEVER, "search": SEARCH} | words
    problem = stated()
    one = Study(problem, solver=make("epbo", **same), seed=5)
    two = Study(problem.folded(), solver=CUQB(**same), seed=5)
    one.run(10)
    two.run(10)
    assert sum(points(one.trials), ()) == pytest.approx(sum(points(two.trials), ()), abs=1e-9)
    for mine, theirs in zip(one.trials[-3:], two.trials[-3:], strict=True):
        assert mine.why.aim == theirs.why.aim
        assert mine.why.upper == pytest.approx(theirs.why.upper, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_epbo_is_cuqb_on_the_folded_problem_also_as_published() -> None:
    one = solve(hill(), 9, solver="epbo-paper", seed=2)
    two = solve(hill().folded(), 9, solver="cuqb-paper", seed=2)
    assert sum(points(one.trials), ()) == pytest.approx(sum(points(two.trials), ()), abs=1e-6)


def test_epbo_punishes_violation() -> None:
    """The objective grows into the forbidden part: a penalty of the wrong sign would run to x = 3 every time."""
    problem = parabola(maximize="x + 0*y", subject_to={"black": "y >= 0.75"})
    result = solve(problem, 10, solver=quick("epbo", verify_every=None, **without("widen", "tell")), seed=0)
    explored = [trial.x.x for trial in result.trials if trial.why.aim == "explore"]
    assert sum(abs(x - 1.8) < 1e-3 for x in explored) >= len(explored) - 2
    assert sum(x > 2.5 for x in explored) <= 1


@pytest.mark.slow
def test_epbo_as_published_never_calls_a_problem_infeasible_and_by_default_it_does() -> None:
    problem = parabola(subject_to={"hopeless": "y >= 5"})
    kept = {"believer": BELIEVER, "search": SEARCH}
    assert solve(problem, 12, solver=make("epbo", **kept), seed=0).status is Status.INFEASIBLE
    assert solve(problem, 12, solver=make("epbo", **kept, verdict=None), seed=0).status is Status.FINISHED


@pytest.mark.slow
def test_a_constraint_that_no_trial_has_met_yet_is_not_excluded_by_its_model() -> None:
    """All values told are negative: a plain logarithm would promise that they stay so."""
    problem = parabola(maximize="-x", subject_to={"steep": lambda x, y: 10.0 - 10.0 ** (2.0 - 1.2 * y.y)})
    study = Study(problem, solver="epbo", seed=4)
    study.run(3)
    assert not study.result().is_feasible
    study.run(6)
    assert study.status is Status.RUNNING
    assert study.result().is_feasible


# ------------------------------------------------------------------------------- values known on an affine problem


def scene_of(problem: Problem, pool: int = 256) -> Scene:
    data, belief, composite = believed(problem)
    f = data.functions(problem)
    ones = np.ones(problem.k)
    U, search = Stream(1).sobol(pool, problem.d), Search()
    return Scene(9, data, belief, belief, composite, f, feasible(problem, f), data.U[:2], U, ones, search, Stream(0))


def test_bois_equals_the_bounds_of_cuqb_where_g_is_affine() -> None:
    _, _, composite = believed(affine())
    U = Stream(2).sobol(32, 2)
    ours, theirs = optimistic(composite, 0.95), DeltaBounds(composite, Z95, 1.0)
    np.testing.assert_allclose(theirs.values(U), ours.values(U), rtol=1e-9, atol=1e-12)
    for mine, yours in zip(theirs.values_and_slopes(U), ours.values_and_slopes(U), strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-6, atol=1e-9)


def test_the_delta_method_gives_mean_and_deviation_of_an_affine_function() -> None:
    _, belief, composite = believed(affine())
    U = Stream(2).sobol(8, 2)
    mean, std = belief.moments(U)
    (center, _), (width, _) = linearized(Points.of(composite, U), 0)
    np.testing.assert_allclose(center, 2 * mean[:, 0] - 3 * mean[:, 1] + U[:, 0], rtol=1e-9)
    np.testing.assert_allclose(width, np.sqrt(4 * std[:, 0] ** 2 + 9 * std[:, 1] ** 2), rtol=1e-9)
    assert linearized(Points.of(composite, U), 2)[1][0].max() < 1e-90  # white


def test_the_box_is_worth_g_at_its_best_corner_where_g_is_affine() -> None:
    problem = affine(subject_to=None)
    scene = scene_of(problem)
    run = BoxRun(make("box", believer=BELIEVER, search=Search(pool=64)), problem, Stream(0))
    best, why = run._explore(scene)
    mean, std = scene.belief.moments(best.u[None])
    corners = [
        float(problem.g(problem.from_unit(best.u[None]), (mean + Z95 * std * np.array(signs))[None])[0][0, 0])
        for signs in product((-1.0, 1.0), repeat=2)
    ]
    assert float(best.f[0]) == pytest.approx(max(corners), rel=1e-9)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), -1).reshape(-1, 2)
    mean, std = scene.belief.moments(grid)
    brute = 2 * mean[:, 0] - 3 * mean[:, 1] + grid[:, 0] + Z95 * (2 * std[:, 0] + 3 * std[:, 1])
    assert float(best.f[0]) >= float(brute.max()) - 1e-9
    assert why.optimistic == float(best.f[0])


def test_the_box_asks_one_vector_of_outputs_to_be_good_and_feasible_at_once() -> None:
    """p cannot be both high, for the objective, and low, for the constraint, although each bound alone would do."""
    problem = affine(maximize="p", subject_to={"black": "p <= 1.5"})
    scene = scene_of(problem)
    best, _ = BoxRun(make("box", believer=BELIEVER), problem, Stream(0))._explore(scene)
    assert float(best.f[0]) == pytest.approx(1.5, abs=1e-6)


def test_cobalt_relaxes_its_constraints_by_trust_and_trusts_less_with_every_trial() -> None:
    _, belief, composite = believed(affine())
    U = Stream(2).sobol(8, 2)
    mean, std = belief.moments(U)
    relaxed = Trusting(composite, None, np.ones(3), 32, 32, 0.05, 1.7).values(U)
    width = np.sqrt(std[:, 0] ** 2 + std[:, 1] ** 2)
    np.testing.assert_allclose(relaxed[:, 1], mean.sum(1) - 0.5 + 1.7 * width, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(relaxed[:, 2], 2 - U[:, 0] - 2 * U[:, 1], rtol=1e-9, atol=1e-12)
    run = COBALTRun(COBALT(trust=3.0, fades=4), affine(), Stream(0))  # the initial design has 5 points
    assert [run.trust(number) for number in (6, 8, 10, 99)] == [3.0, 1.5, 0.0, 0.0]
    assert COBALTRun(COBALT(fades=None), affine(), Stream(0)).trust(99) == 3.0


def test_the_merit_quantile_is_the_order_statistic_of_the_penalized_sample() -> None:
    problem = affine(subject_to={"black": "p + q >= 0.5"})
    _, belief, composite = believed(problem)
    U = Stream(4).sobol(16, 2)
    scales = np.array([2.0, 0.5])
    got = PenalizedQuantile(composite, scales, 0.95, 10.0, True).values_and_slopes(U)[0][:, 0]
    drawn = Points.of(composite, U).drawn(64)
    G = [drawn.function(i)[0] / scales[i] for i in range(2)]
    merit = G[0] - 10.0 * np.minimum(G[1], 0.0) ** 2
    np.testing.assert_allclose(got, quantile.harrell_davis(merit, 0.95), rtol=1e-9, atol=1e-12)
    free = PenalizedQuantile(composite, np.ones(2), 0.95, 1e-12, True).values_and_slopes(U)[0][:, 0]
    exact = optimistic(composite, 0.95).values(U)[:, 0]
    width = np.sqrt(((belief.moments(U)[1] * [2.0, 3.0]) ** 2).sum(1))
    assert np.abs((free - exact) / width).max() < 0.25  # 64 samples, the tail of 5 percent


def test_the_scripts_form_takes_number_47_of_50() -> None:
    assert quantile.rank(50, make("merit-quantile-paper").level) == 47


@pytest.mark.parametrize("make_functions", [
    lambda composite: DeltaBounds(composite, Z95, 1.0),
    lambda composite: Trusting(composite, 0.4, np.ones(3), 32, 32, 0.3, 1.0),
    lambda composite: PenalizedQuantile(composite, np.ones(3), 0.9, 2.0, True),
    lambda composite: Joint(composite, Z95, in_ball=False),
], ids=["bois", "cobalt", "merit", "box"])  # fmt: skip
def test_slopes_equal_differences(make_functions: Any) -> None:
    _, _, composite = believed(waves())
    functions = make_functions(composite)
    size = 5 if isinstance(functions, Joint) else 2
    Z = Stream(3).sobol(4, size) * 0.9 + 0.05
    _, slopes = functions.values_and_slopes(Z)
    around = slopes_by_difference(lambda V: functions.values_and_slopes(V)[0], Z)
    np.testing.assert_allclose(slopes, around, rtol=1e-3, atol=1e-5)  # differences


# --------------------------------------------------------------------------------------- what every rival must bear


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_the_optimum_of_a_tiny_problem_is_found_within_the_box(name: str) -> None:
    result = solve(hill(), 16, solver=quick(name), seed=1)
    assert result.value == pytest.approx(2.0, abs=2e-3)
    assert all(0 <= trial.x.a <= 4 and 0 <= trial.x.b <= 4 for trial in result.trials)


@pytest.mark.parametrize("name", MOST)
def test_failed_partial_and_pending_trials_are_borne(name: str) -> None:
    problem = waves()
    study = Study(problem, solver=quick(name), seed=2)
    study.run(6)
    study.fail(study.ask(), "pump tripped")
    partial = study.ask()
    study.tell(partial, {"p": math.sin(3 * partial.x.s)})
    waiting = [study.ask() for _ in range(2)]
    following = study.ask()
    assert following.state is State.ASKED
    assert distance(study.trials, problem) > 1e-7
    for trial in waiting:
        study.tell(trial, problem.named_y(problem.evaluate(trial.x)))
    assert study.ask().why.rung == "plain"


@pytest.mark.parametrize("name", MOST)
def test_the_same_seed_gives_the_same_run_and_no_global_generator_is_touched(name: str) -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    one, two = (points(solve(waves(), 7, solver=quick(name), seed=4).trials) for _ in range(2))
    assert one == two
    assert (np.random.get_state()[1] == before).all()
    assert one[:5] == points(solve(waves(), 5, solver="random", seed=4).trials)  # the initial design is shared


@pytest.mark.parametrize("name", MOST)
def test_a_run_that_is_continued_equals_one_that_was_not_interrupted(name: str) -> None:
    whole = Study(waves(), solver=quick(name), seed=6)
    whole.run(8)
    again = Study(waves(), solver=quick(name), seed=6)
    again.run(6)
    again._run = again.solver.start(again.problem, again._stream)  # a fresh run, as after reopening
    again.run(2)
    assert points(again.trials) == points(whole.trials)


@pytest.mark.parametrize("name", MOST)
def test_a_value_of_g_that_is_not_finite_does_no_harm(name: str) -> None:
    problem = parabola(maximize="log(y + 0.5)", ranges=None)
    result = solve(problem, 7, solver=quick(name, strict=False), seed=0)
    assert result.value == pytest.approx(math.log(1.5), abs=0.05)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("epbo", {"level": 1.5}, "between 0.5 and 1, got 1.5"),
    ("epbo", {"verdict": "perhaps"}, "'joint' or 'single'"),
    ("box", {"verify_every": -1}, "counts trials from 1"),
    ("box", {"radius": 2.0}, "solver 'box' has no setting 'radius'"),
    ("cobalt", {"trust": -1.0}, "0 or more, got -1.0"),
    ("cobalt", {"fades": 0}, "counts trials from 1"),
    ("merit-quantile", {"weight": 0.0}, "above 0, got 0.0"),
    ("epbo-paper", {"level": 0.9}, "solver 'epbo-paper' has no setting 'level'"),
]


@pytest.mark.parametrize(("name", "words", "says"), REFUSED, ids=str)
def test_settings_out_of_range_are_refused_by_name(name: str, words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        make(name, **words)
