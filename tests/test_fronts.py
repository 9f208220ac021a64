"""Several objectives: statement, steps against enumeration, result, refusals, and whole studies."""

import json
from pathlib import Path

import numpy as np
import pytest

import pied
from pied import suite
from pied.bounds import Believer
from pied.errors import SettingError, StatementError, Status, UnknownName
from pied.hypervolume import hypervolume
from pied.rng import Stream
from pied.search import Search
from pied.shell.statement_file import read
from pied.solvers.front import Growing, Sight, growing, largest_growth
from pied.solvers.frontier import Frontier
from pied.study.opening import stated
from tiny import SMALL, fast

BOX = {"a": (0.0, 1.0), "b": (0.0, 1.0)}


def parabolas(**words: object) -> pied.Problem:
    """Maximize 1 - (a - 0.8)^2 - b, minimize (a - 0.2)^2 + b: the front is b = 0, a from 0.2 to 0.8."""
    given = {
        "outputs": ["near", "far"],
        "blackbox": lambda x: {"near": (x["a"] - 0.8) ** 2, "far": (x["a"] - 0.2) ** 2},
        "maximize": {"gain": "1 - near - b"},
        "minimize": {"cost": "far + b"},
        "subject_to": {"enough": "a >= 0.3"},
        "noise": 0,
    }
    return pied.Problem(BOX, **{**given, **words})


@pytest.fixture(scope="module")
def study() -> pied.Study:
    made = pied.Study(parabolas(), seed=3)
    made.run(12, progress=False)
    return made


# --- Statement --------------------------------------------------------------------------------------------------------


def test_several_objectives_are_maximized_first_and_each_has_its_sign() -> None:
    problem = parabolas(unit={"cost": "EUR"})
    assert problem.objectives == ("gain", "cost")
    assert problem.goal_signs.tolist() == [1.0, -1.0]
    assert problem.goal_units == ("", "EUR")
    assert problem.constraints == ("enough",)
    whole = problem.side_by_side
    X, Y = np.array([[0.5, 0.1]]), np.array([[[0.09, 0.09]]])
    gain, _, cost = (float(np.ravel(g)[0]) for g in whole.g(X, Y))
    assert (gain, cost) == pytest.approx((0.81, -0.19))
    assert "maximize gain, minimize cost" in repr(problem)


def test_one_named_objective_is_what_it_was() -> None:
    problem = parabolas(minimize=None)
    assert problem.objectives == ("gain",)
    assert not problem.has_front
    assert "further" not in problem.statement()
    assert problem.side_by_side is problem


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"minimize": "far"}, "each has a name"),
        ({"maximize": "near", "minimize": "far"}, "given twice: leave out maximize or minimize, or name both"),
        ({"name": "gain"}, "leave out name="),
        ({"minimize": {"gain": "far"}}, "Two objectives are called 'gain'"),
        ({"minimize": {"enough": "far"}}, "Two functions are called 'enough'"),
        ({"minimize": {"near": "far"}}, "both"),
        ({"unit": "EUR"}, "unit of each objective"),
        ({"unit": {"gian": "EUR"}}, "Did you mean 'gain'"),
        ({"minimize": {str(i): "far" for i in range(4)}}, "5 objectives are too many"),
    ],
)
def test_a_wrong_statement_is_refused_with_a_remedy(words: dict[str, object], said: str) -> None:
    with pytest.raises(StatementError, match=said):
        parabolas(**words)


def test_a_stored_question_of_several_objectives_is_restored() -> None:
    statement = json.loads(json.dumps(parabolas(blackbox=None).statement()))
    restored = stated(statement)
    assert restored is not None
    assert restored.statement() == statement
    assert stated(parabolas(minimize={"cost": lambda x, y: y["far"]}, blackbox=None).statement()) is None


def test_a_file_states_several_objectives(tmp_path: Path) -> None:
    file = tmp_path / "brew.toml"
    text = """
[maximize]
gain = "1 - near - b"
[minimize]
cost = "far + b"
[unit]
cost = "EUR"
[variables]
a = [0, 1]
b = [0, 1]
[outputs]
near = {}
far = {}
[subject_to]
enough = "a >= 0.3"
[study]
stop_at_growth = 0.02
"""
    file.write_text(text)
    found = read(str(file))
    assert found.problem.objectives == ("gain", "cost")
    assert found.problem.goal_units == ("", "EUR")
    assert found.study["stop_at_growth"] == 0.02
    file.write_text(text.replace('"far + b"', '"fra + b"'))
    with pytest.raises(StatementError, match=r"minimize\.cost"):
        read(str(file))


def test_a_renamed_output_is_renamed_in_all_objectives() -> None:
    from pied.problem import renamed_words

    words = renamed_words(parabolas(), {"far": "away"}, {})
    assert words["minimize"] == {"cost": "away + b"}


# --- Steps ------------------------------------------------------------------------------------------------------------


def sight_of(problem: pied.Problem, U: np.ndarray) -> Sight:
    """Look at a front of told points."""
    from pied.records import Dataset

    X = problem.from_unit(U)
    Y = np.array([problem.evaluate(x) for x in X])
    data = Dataset(tuple(range(len(U))), U, Y, U[:0])
    believer = Believer()
    belief = believer.fit(problem, data)
    composite = believer.bound(problem.side_by_side, data, belief, Stream(0))
    F = data.functions(problem.side_by_side)[:, problem.goal_places]
    return Sight(composite, Frontier.of(F, F, np.ones(2)), np.ones(problem.k))


@pytest.mark.slow
def test_the_step_promises_as_much_as_the_best_of_many_points() -> None:
    problem = parabolas()
    sight = sight_of(problem, Stream(4).at("told").sobol(8, 2))
    pool = Stream(1).at("pool").sobol(256, 2)
    best, hoped = largest_growth(problem, sight, 0.95, Search(), pool, pool[:0], Stream(2), joint=False)
    every = Stream(7).at("every").sobol(4096, 2)
    upper = sight.composite.values(every, [0.95] * 3)
    worth = np.where(upper[:, 1] >= 0, sight.frontier.worth(upper[:, problem.goal_places]), -np.inf)
    assert best.satisfied
    assert best.f[0] >= worth.max() - 1e-6
    assert sight.frontier.worth(hoped[None])[0] == pytest.approx(best.f[0], abs=1e-3)


def test_what_a_point_is_worth_has_the_slopes_of_its_differences() -> None:
    frontier = Frontier.of(np.array([[1.0, 0.0], [0.6, 0.5], [0.0, 1.0]]), np.zeros((0, 2)), np.ones(2))
    P = np.array([[0.9, 0.45], [0.3, 0.31], [1.4, 0.2], [0.1, -0.3]])
    value, slopes = frontier.worth_and_slopes(P)
    assert value == pytest.approx(frontier.worth(P))
    assert value[0] > 0 > value[1]
    for j in range(2):
        step = np.eye(2)[j] * 1e-7
        assert slopes[:, j] == pytest.approx((frontier.worth(P + step) - frontier.worth(P - step)) / 2e-7, abs=1e-4)


@pytest.mark.slow
def test_the_functions_of_a_step_have_the_slopes_of_their_differences() -> None:
    problem = parabolas()
    sight = sight_of(problem, Stream(4).at("told").sobol(8, 2))
    from pied.bounds import Bounds

    functions: Growing = growing(problem, Bounds(sight.composite, (0.9,) * 3), sight)
    U = 0.1 + 0.8 * Stream(5).at("points").uniform(6, 2)
    f, J = functions.values_and_slopes(U)
    for j in range(2):
        step = np.eye(2)[j] * 1e-6
        difference = (functions.values_and_slopes(U + step)[0] - functions.values_and_slopes(U - step)[0]) / 2e-6
        assert J[:, :, j] == pytest.approx(difference, rel=1e-3, abs=1e-3)
    assert f[:, 1] == pytest.approx(U[:, 0] - 0.3)


# --- Results ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_front_has_the_told_points_that_nothing_dominates(study: pied.Study) -> None:
    result = study.result()
    assert result.front is not None
    told = [(1 - t.y["near"] - t.x["b"], t.y["far"] + t.x["b"], t.x["a"]) for t in study.trials]
    fine = [(gain, cost) for gain, cost, a in told if a >= 0.3]
    best = [p for p in fine if not any(q[0] >= p[0] and q[1] <= p[1] and q != p for q in fine)]
    shown = [(point.values["gain"], point.values["cost"]) for point in result.front]
    assert np.array(sorted(shown)) == pytest.approx(np.array(sorted(best)))
    assert shown == sorted(shown, reverse=True)
    for point in result.front:
        low, high = point.bounds["gain"]
        assert low <= point.values["gain"] <= high
        assert point.slack["enough"] == pytest.approx(point.x["a"] - 0.3)


@pytest.mark.slow
def test_a_point_is_picked_by_what_it_must_reach(study: pied.Study) -> None:
    result = study.result()
    assert result.front is not None
    costs = sorted(point.values["cost"] for point in result.front)
    picked = result.pick(cost=costs[1])
    assert picked.values["cost"] == costs[1]
    balanced = result.pick()
    assert result.x == balanced.x
    assert result.values == balanced.values
    with pytest.raises(SettingError, match="no point of the front has gain at least 2; the best is"):
        result.pick(gain=2)
    with pytest.raises(UnknownName, match="Did you mean 'cost'"):
        result.pick(csot=1)


@pytest.mark.slow
def test_the_result_is_shown_in_every_form(study: pied.Study, tmp_path: Path) -> None:
    result = study.result()
    assert "best trade-offs of gain and cost" in str(result)
    assert "could enlarge the dominated area" in str(result)
    assert "best trade-offs so far" in str(study)
    assert "<table>" in result._repr_html_()
    data = json.loads(json.dumps(result.to_dict()))
    assert len(data["front"]["points"]) == len(result.front or ())
    pytest.importorskip("matplotlib")
    from pied.plots import draw

    for kind in (None, "front", "history"):
        draw(study, kind, file=tmp_path / f"{kind}.png")
    with pytest.raises(SettingError, match="draw the front"):
        draw(study, "gap", file=tmp_path / "gap.png")
    study.report(tmp_path / "page.html")
    assert "best trade-offs between the highest gain and the lowest cost" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_what_needs_one_objective_says_so(study: pied.Study) -> None:
    for ask in (study.sensitivities, study.what_if, lambda: study.sweep(enough=[1, 2]), lambda: study.explain(9)):
        with pytest.raises(SettingError, match="need one objective, and this study has 'gain', 'cost'"):
            ask()
    with pytest.raises(SettingError, match="choose from its front"):
        study.result("anywhere")
    assert study.gap() == (None, None)
    assert set(study.importance()) == {"near", "far"}


def test_what_cannot_go_with_the_number_of_objectives_is_refused() -> None:
    with pytest.raises(SettingError, match=r"stop_at_growth=0\.01"):
        pied.Study(parabolas(), stop_at_gap=1.0)
    with pytest.raises(SettingError, match="stop_at_gap="):
        pied.Study(parabolas(minimize=None), stop_at_growth=0.1)
    with pytest.raises(SettingError, match="share of the front"):
        pied.Study(parabolas(), stop_at_growth=-0.1)
    with pytest.raises(SettingError, match="seeks one best point"):
        pied.Study(parabolas(), solver="eic-cf")
    with pytest.raises(SettingError, match="has one objective"):
        pied.Study(parabolas(), solver="cuqb-paper")


def test_a_result_of_one_objective_has_no_front() -> None:
    with pied.Study(parabolas(minimize=None), seed=1) as made:
        result = made.result()
    assert result.front is None
    assert result.growth is None
    with pytest.raises(SettingError, match="one best point"):
        result.pick()


# --- Studies ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_study_comes_near_to_the_known_front(study: pied.Study) -> None:
    a = np.linspace(0.3, 0.8, 2001)
    truth = np.column_stack([1 - (a - 0.8) ** 2, -((a - 0.2) ** 2)])
    reference = np.array([0.7, -0.4])
    result = study.result()
    assert result.front is not None
    found = np.array([[point.values["gain"], -point.values["cost"]] for point in result.front])
    assert hypervolume(found, reference) >= 0.9 * hypervolume(truth, reference)
    assert hypervolume(found, reference) <= hypervolume(truth, reference) + 1e-12
    assert result.growth is not None
    assert 0 <= result.growth < 0.5


@pytest.mark.slow
def test_a_stored_study_is_continued_and_stops_when_its_front_can_hardly_grow(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'lab.db'}"
    with pied.Study(parabolas(), name="front", store=store, seed=3, solver=fast()) as first:
        first.run(6, progress=False)
    with pied.Study(parabolas(), name="front", store=store, stop_at_growth=0.5) as again:
        assert again.questions[0].statement["further"][0]["called"] == "cost"
        result = again.run(12, progress=False)
    assert result.status is Status.GROWTH_REACHED
    assert result.growth is not None
    assert result.growth <= 0.5


@pytest.mark.slow
def test_points_of_a_front_at_a_limit_meet_it() -> None:
    """The upper bound of a limit is broken by a hair at most points; of a front each point has to meet it."""
    problem = pied.Problem(
        BOX,
        outputs=["r"],
        blackbox=lambda x: {"r": x["a"] ** 2 + x["b"] ** 3 + 0.2 * np.sin(3 * x["a"] + x["b"])},
        maximize={"left": "a", "up": "b"},
        subject_to={"within": "r <= 0.7"},
        noise=0,
    )
    study = pied.Study(problem, seed=1, solver=fast())
    study.run(24, progress=False)
    last = study.data.functions(problem)[-12:, 1]
    assert (last >= 0).mean() >= 0.6


@pytest.mark.slow
def test_limits_that_nothing_meets_are_found_out_as_always() -> None:
    problem = parabolas(subject_to={"enough": "near <= -0.1"})
    result = pied.Study(problem, seed=1, solver=fast()).run(20, progress=False)
    assert result.status is Status.INFEASIBLE
    assert len(result.front or ()) == 0
    assert "cannot be met" in str(result)


@pytest.mark.slow
def test_a_choice_and_pending_trials_do_not_disturb_a_front() -> None:
    problem = pied.Problem(
        {"a": (0.0, 1.0), "kind": pied.Choice("red", "blue")},
        ["y"],
        blackbox=lambda x: {"y": x["a"] * (1.0 if x["kind"] == "red" else 1.5)},
        maximize={"gain": "y"},
        minimize={"cost": "y^2 + a"},
        noise=0,
    )
    made = pied.Study(problem, seed=2, solver=fast())
    trials = [made.ask() for _ in range(6)]
    for trial in trials:
        made.tell(trial, problem.evaluate(trial.x))
    pending = [made.ask() for _ in range(3)]
    assert len({tuple(trial.x.values()) for trial in pending}) == 3
    assert len(made.result().front or ()) > 1


# --- The suite --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", suite.sets["fronts"])
def test_no_random_point_beats_a_known_front(name: str) -> None:
    benchmark = suite.front(name)
    problem = benchmark.problem
    f = benchmark.truth(problem.from_unit(Stream(11).at("points").sobol(4096, problem.d)))
    fine = benchmark.is_strictly_feasible(f)
    volume = hypervolume(benchmark.objectives(f)[fine], np.array(benchmark.reference) * problem.goal_signs)
    assert volume <= benchmark.volume * (1 + 1e-6)
    assert benchmark.truth(problem.from_unit(np.full((1, problem.d), 0.5))).shape == (1, problem.side_by_side.k)


def test_a_front_is_not_taken_for_one_optimum() -> None:
    with pytest.raises(UnknownName, match=r"suite\.front"):
        suite.get("binh-korn")
    with pytest.raises(UnknownName, match="Did you mean 'tanaka'"):
        suite.front("tanakka")


@pytest.mark.parametrize(("left_out", "is_tested"), [((), True), (("verify", "feasible"), False)])
def test_a_front_is_sought_without_the_moves_that_are_left_out(left_out: tuple[str, ...], is_tested: bool) -> None:
    problem = parabolas(subject_to={"enough": "near >= 5"})
    with pied.Study(problem, solver=pied.CUQB(search=SMALL).without(*left_out), seed=0) as study:
        for _ in range(7):
            trial = study.ask()
            study.tell(trial, {"near": (trial.x.a - 0.8) ** 2, "far": (trial.x.a - 0.2) ** 2})
        assert any(trial.why.margin is not None for trial in study.trials) is is_tested
