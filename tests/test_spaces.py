"""Integers, levels, choices with properties, equalities and mixtures: words, belief, search, record, verdict."""

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from pied import Choice, Integer, Levels, Mixture, Problem, Status, Study, Variable
from pied.bounds import Believer, coding_of
from pied.errors import FormulaError, SolverDone, StatementError, UnknownName
from pied.gp import GP, Coding, Labels, scaled
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers.initial import initial_design

KINETICS = {"MeCN": (2.0, 60.0), "DMF": (3.0, 80.0), "EtOH": (1.0, 95.0)}
PRICES = {"MeCN": 3.0, "DMF": 2.5, "EtOH": 1.0}


def reaction(x):
    rate, best = KINETICS[x.solvent]
    return {
        "conversion": rate * math.exp(-(((x.T - best) / 20) ** 2)) * (1 + 0.1 * x.n - 0.004 * x.n**2),
        "impurity": 0.01 * x.T + 0.05 * x.n * (x.solvent == "DMF"),
    }


def screening(**words):
    """A solvent, a number of stages and a temperature; the optimum is DMF with 8 stages at 80."""
    variables = {"n": Integer(1, 30), "solvent": Choice(*KINETICS, properties={"price": PRICES}), "T": (40, 110)}
    stated = {"maximize": "conversion*10 - solvent.price - 0.2*n", "subject_to": ["impurity <= 1.2"], "noise": 0}
    return Problem(variables, ["conversion", "impurity"], **({"blackbox": reaction} | stated | words))


def blend(**words):
    """Three fractions that add up to one, and a temperature."""
    variables = {"blend": Mixture("water", "glycol", "salt", bounds={"salt": (0.02, 0.2)}), "T": (20, 80)}
    stated = {"maximize": "10*glycol - 6*salt^2 - 0.5*viscosity - 0.01*T", "noise": 0}
    stated |= {"subject_to": ["density >= 1.12", "viscosity <= 9"]}
    return Problem(variables, ["viscosity", "density"], blackbox=liquid, **(stated | words))


def liquid(x):
    water, glycol, salt = x.water, x.glycol, x.salt
    viscosity = math.exp(0.2 * water + 3 * glycol + salt + 1.5 * glycol * salt + 0.01 * (x.T - 20))
    return {"viscosity": viscosity, "density": water + 1.1 * glycol + 1.8 * salt - 0.3 * glycol * salt}


# --------------------------------------------------------------------------------------------------------- the words


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Choice(), "No labels are given"),
        (lambda: Choice("a"), "'a' is the only label"),
        (lambda: Choice("a", "a "), "'a' is given twice"),
        (lambda: Choice("a", 3), "Levels"),
        (lambda: Choice(["a", "b"]), "not in a list"),
        (lambda: Choice("a", "b", properties={"p": {"a": 1}}), "'p' is missing for 'b'"),
        (lambda: Choice("a", "b", properties={"p": {"a": 1, "c": 2}}), "'c', which is no label"),
        (lambda: Choice("a", "b", properties={"p": [1]}), "needs 2 numbers"),
        (lambda: Choice("a", "b", properties={"p": [1, "x"]}), "should be a number"),
        (lambda: Choice("a", "b", properties="nowhere.csv"), "cannot be read from nowhere.csv"),
        (lambda: Integer(1.5, 4), "whole numbers as bounds"),
        (lambda: Integer(4, 2), "must be below"),
        (lambda: Levels(3), "fewer than two levels"),
        (lambda: Levels(3, 3), "must be below|given twice"),
        (lambda: Levels(1, 2, 2), "given twice"),
        (lambda: Levels("a", "b"), "should be a number"),
        (lambda: Variable(0, 1, step=0.3), "let the range end at 0.9 or 1.2"),
        (lambda: Mixture("water"), "at least two parts"),
        (lambda: Mixture("a", "a"), "twice"),
        (lambda: Mixture("a", "b", total=0), "a number above 0"),
        (lambda: Mixture("a", "b", bounds={"c": (0, 1)}), "'c' has bounds but is no part"),
    ],
)
def test_what_is_no_variable_gets_one_sentence(make, said):
    with pytest.raises(StatementError, match=said):
        make()


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({"n": 3.5, "solvent": "DMF", "T": 50}, "'n' counts in whole numbers, got 3.5"),
        ({"n": 3, "solvent": "DFM", "T": 50}, "Did you mean 'DMF'"),
        ({"n": 3, "solvent": 1, "T": 50}, "should be one of 'MeCN', 'DMF', 'EtOH'"),
        ({"n": 31, "solvent": "DMF", "T": 50}, "'n' = 31"),
    ],
)
def test_a_point_that_cannot_be_set_is_refused(point, said):
    with pytest.raises(StatementError, match=said):
        screening().point(point)


def test_functions_and_black_boxes_see_labels_integers_and_properties():
    seen = {}

    def box(x):
        seen.update(x)
        assert x.solvent == "DMF"
        assert x["solvent"].price == 2.5
        assert isinstance(x.n, int)
        assert {"DMF": 1}[x.solvent] == 1
        assert f"{x.solvent:.6g}" == "DMF"
        assert list(range(x.n)) == [0, 1, 2]
        return {"conversion": 1.0, "impurity": 0.5}

    problem = screening(blackbox=box)
    problem.evaluate({"n": 3, "solvent": "DMF", "T": 50.0})
    assert seen == {"n": 3, "solvent": "DMF", "T": 50.0}
    again = pickle.loads(pickle.dumps(problem.named_x(problem.point(seen))))  # as it travels to a worker process
    assert dict(again) == seen
    assert again.solvent.price == 2.5


def test_a_property_is_the_same_number_by_every_door():
    doors = {
        "formula": "solvent.price * T",
        "traced": lambda x, y: x.solvent.price * x.T,
        "compared": lambda x, y: np.where(x.solvent == "DMF", 2.5, np.where(x.solvent == "EtOH", 1.0, 3.0)) * x.T,
        "looked up": lambda x, y: PRICES[x.solvent] * x.T,
    }
    X = np.array([[2.0, code, 40.0 + 10 * code] for code in range(3)])
    for name, function in doors.items():
        problem = screening(maximize=function)
        found = problem.g(X, np.zeros((1, 3, 2)), which=(0,))[0]
        np.testing.assert_allclose(found, [120.0, 125.0, 60.0], err_msg=name)
        assert ("point by point" in next(iter(problem.ways.values()))) == (name == "looked up")


def test_a_property_may_come_from_a_file_and_have_a_name_with_spaces(tmp_path):
    file = tmp_path / "solvents.csv"
    file.write_text("name;boiling point\nMeCN;82,0\nDMF;153\nEtOH;78,4\n", encoding="utf-8")
    choice = Choice(properties=file)
    assert choice.labels == ("MeCN", "DMF", "EtOH")
    assert choice.properties["boiling point"]["EtOH"] == 78.4
    problem = Problem({"s": choice, "T": (0, 100)}, ["y"], maximize="y", subject_to=["T <= s.boiling_point"])
    assert problem.g(np.array([[2.0, 78.0]]), np.zeros((1, 1, 1)), which=(1,))[0][0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("2*solvent", "is a choice, not a number"),
        ("solvent.prise", "Did you mean 'solvent.price'"),
        ("T == 3", "compare"),
    ],
)
def test_a_formula_that_misuses_a_choice_is_refused(formula, said):
    with pytest.raises(FormulaError, match=said):
        screening(maximize=formula)


# -------------------------------------------------------------------------------------------------------- the belief


def labelled(properties=()):
    return Coding(2, (Labels(1, 4, scaled(properties, 4)),))


def test_labels_share_one_length_scale_and_slopes_by_numbers_are_exact():
    coding, draw = labelled(), np.random.default_rng(0)
    U = np.column_stack([draw.random(12), draw.integers(4, size=12) / 3])
    Y = (np.sin(3 * U[:, 0]) * (1 + U[:, 1]) + np.cos(7 * U[:, 1]))[:, None]
    gp = GP.fit(U, Y, coding=coding)
    own = np.array(gp.choices[0].theta[1:5])
    assert own.max() - own.min() < 1e-9
    at = np.array([[0.37, 1 / 3], [0.81, 1.0]])
    _, _, by_mean, by_deviation = gp.moments_and_slopes(at)
    step = np.array([1e-6, 0.0])
    for slopes, word in ((by_mean, 0), (by_deviation, 1)):
        change = (gp.moments(at + step)[word] - gp.moments(at - step)[word]) / 2e-6
        np.testing.assert_allclose(slopes[:, :, 0], change, rtol=1e-3, atol=1e-5)
        assert not slopes[:, :, 1].any()


def test_the_order_of_labels_does_not_matter():
    draw = np.random.default_rng(1)
    codes, u = draw.integers(4, size=20), draw.random(20)
    Y = (np.sin(4 * u) + np.array([0.0, 2.0, 1.0, 3.0])[codes])[:, None]
    turned = np.array([2, 0, 3, 1])
    at = np.array([0.2, 0.9])
    found = []
    for places in (np.arange(4), turned):
        gp = GP.fit(np.column_stack([u, places[codes] / 3]), Y, coding=labelled())
        found.append(np.concatenate(gp.moments(np.column_stack([at, places[[1, 3]] / 3])), 1))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_a_label_that_was_never_tried_has_wide_bounds():
    draw = np.random.default_rng(2)
    codes, u = np.arange(18) % 3, draw.random(18)
    Y = (u**2 + np.array([0.0, 5.0, -4.0])[codes])[:, None]
    gp = GP.fit(np.column_stack([u, codes / 3]), Y, coding=labelled())
    _, deviation = gp.moments(np.array([[0.5, 0.0], [0.5, 1.0]]))
    assert deviation[1, 0] > 1.0 > 20 * deviation[0, 0], "the labels differ by about 4, and the fourth is unknown"


def test_a_property_predicts_a_label_that_was_never_tried():
    draw = np.random.default_rng(3)
    acidity = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    codes, u = np.arange(24) % 4, draw.random(24)
    Y = (np.sin(2 * u) + 0.5 * acidity[codes] ** 1.5)[:, None]
    errors = []
    for properties in ([acidity], []):
        coding = Coding(2, (Labels(1, 5, scaled(properties, 5)),))
        mean, deviation = GP.fit(np.column_stack([u, codes / 4]), Y, coding=coding).moments(np.array([[0.5, 1.0]]))
        errors.append(abs(mean[0, 0] - (math.sin(1.0) + 0.5 * 4**1.5)))
        assert errors[-1] < 3 * deviation[0, 0]
    assert errors[0] < 0.5 * errors[1]


def test_the_coding_of_a_problem_has_its_properties():
    coding = coding_of(screening())
    assert coding is not None
    assert coding.d == 3
    assert len(coding.origin) == 2 + 3 + 1
    assert coding_of(Problem({"a": (0, 1)}, ["y"], maximize="y")) is None
    inputs = coding.inputs(np.array([[0.0, 0.5, 0.25]]))
    np.testing.assert_allclose(inputs, [[0.0, 0.25, 0.0, 1.0, 0.0, 0.75]])


# --------------------------------------------------------------------------------------------------------- the search


def test_the_search_finds_the_best_label_and_number_of_a_known_function():
    problem = screening()
    rows = [
        {"n": n, "solvent": label, "T": t} for n, label, t in itertools.product((1, 10, 20, 30), KINETICS, (50, 90))
    ]
    study = Study(problem, seed=0)
    for x in rows:
        study.add(x, reaction(problem.named_x(problem.point(x))))
    data = Dataset.of(problem, study.trials)
    believer = Believer()
    composite = believer.bound(problem, data, believer.fit(problem, data), Stream(0))
    trial = study.ask()
    at = problem.to_unit(problem.point(dict(trial.x)))[None]
    grid = problem.grid
    assert grid is not None
    assert grid.has(at).all()
    value = composite.values(at, [0.95] * problem.k)[0]
    others = problem.to_unit(
        np.array([[n, code, t] for n in range(1, 31) for code in range(3) for t in np.linspace(40, 110, 141)])
    )
    f = composite.values(others, [0.95] * problem.k)
    assert value[1] >= -1e-6
    most = f[f[:, 1] >= 0, 0].max()
    assert value[0] >= most - 1e-2 * abs(most)


@pytest.mark.slow
def test_a_study_with_a_choice_and_an_integer_finds_the_optimum():
    found = Study(screening(), seed=1).run(26)
    assert found.x is not None
    assert (found.x.solvent, found.x.n) == ("DMF", 8)
    assert found.value == pytest.approx(42.22, abs=1e-2)


def test_a_finite_space_is_exhausted_with_a_verdict_or_an_optimum_and_no_gap():
    variables = {"n": Integer(1, 3), "s": Choice("a", "b")}
    for least, status in ((4.2, Status.INFEASIBLE), (3.0, Status.DONE)):
        study = Study(
            Problem(
                variables, ["y"], blackbox=lambda x: x.n + (x.s == "a"), maximize="y", noise=0,
                subject_to=[f"y >= {least}"],
            ),
            seed=0,
        )  # fmt: skip
        result = study.run(20)
        assert result.status is status
        assert study.used <= 6
        assert len({(trial.x.n, trial.x.s) for trial in study.trials}) == study.used, "no setting is measured twice"
        if status is Status.DONE:
            assert result.gap == 0.0
            assert dict(result.x) == {"n": 3, "s": "a"}
            assert "every setting that can be chosen is known" in str(result)
            under_way = str(replace(result, status=Status.RUNNING))
            assert "nothing better is expected" in under_way
            assert "every setting" not in under_way, "a gap of zero alone does not mean that all was tried"


# ------------------------------------------------------------------------------------------------------- equalities


def test_every_point_of_a_mixture_adds_up_and_keeps_its_bounds():
    problem = blend()
    assert (problem.d, len(problem.variables), problem.held["blend"]) == (3, 4, "`water` + `glycol` + `salt` == 1.0")
    U = initial_design(problem, Stream(4))[:200]
    X = np.array([problem.natural(u) for u in U])
    assert np.abs(X[:, :3].sum(1) - 1).max() <= 1e-12
    lo, hi = problem.bounds.T
    assert ((lo - 1e-12 <= X) & (hi + 1e-12 >= X)).all()
    np.testing.assert_allclose(problem.to_unit(X), U, atol=1e-12)


def test_slopes_go_through_what_equalities_determine():
    problem = blend()
    U = problem.settled(Stream(1).uniform(4, 3), Stream(2))
    Y, which = np.full((1, 4, 2), 1.3), tuple(range(problem.k))
    X = problem.from_unit(U)
    G, back = problem.traced(X, Y, which)
    slopes = problem.by_axes(back(np.ones_like(G))[0]) * problem.unit_slopes(X)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        both = [problem.traced(problem.from_unit(U + side * step), Y, which)[0][:, 0] for side in (1, -1)]
        np.testing.assert_allclose(slopes[..., j], (both[0] - both[1]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_random_points_of_a_mixture_keep_the_bounds_of_what_follows_from_the_others():
    problem = Problem(
        variables={"blend": Mixture("water", "glycol", "salt", bounds={"salt": (0, 0.2)})},
        outputs=["y"],
        blackbox=lambda x: {"y": x.water},
        maximize="y",
    )
    study = Study(problem, seed=1, solver="random", initial=2)
    study.run(30, progress=False)
    X = np.array([trial.x.array for trial in study.trials])
    assert (X >= -1e-12).all()
    assert (X[:, 2] <= 0.2 + 1e-12).all()
    assert X.sum(1) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_study_of_a_mixture_finds_the_optimum_and_meets_the_equality_at_every_proposal():
    study = Study(blend(), seed=0)
    result = study.run(24)
    assert result.value == pytest.approx(1.885605, abs=1e-4)
    assert max(abs(trial.x.water + trial.x.glycol + trial.x.salt - 1) for trial in study.trials) <= 1e-12
    assert abs(result.x.water + result.x.glycol + result.x.salt - 1) <= 1e-12


def test_an_equality_of_integers_is_kept_on_their_grid():
    counts = {name: Integer(0, 10) for name in ("p", "q", "r")}
    problem = Problem({**counts, "t": (0, 1)}, ["y"], maximize="y", subject_to={"ten": "p + q + r == 10"})
    for u in initial_design(problem, Stream(0))[:50]:
        x = problem.named_x(problem.natural(u))
        assert x.p + x.q + x.r == 10
        assert min(x.p, x.q, x.r) >= 0


@pytest.mark.slow
def test_an_equality_that_is_not_linear_holds_at_every_proposal():
    def box(x):
        return (x.a - 1.2) ** 2 + (x.b - 2) ** 2 + 0.5 * math.sin(3 * x.c)

    problem = Problem(
        {"a": (0.1, 3), "b": (0.1, 3), "c": (0, 2)}, ["y"], blackbox=box, minimize="y + c", noise=0,
        subject_to={"hyperbola": "a*b == 1.5", "sum": "a + c >= 1"},
    )  # fmt: skip
    study = Study(problem, seed=0)
    result = study.run(16)
    assert max(abs(trial.x.a * trial.x.b - 1.5) for trial in study.trials) <= 1e-8
    assert all(trial.x.a + trial.x.c >= 1 - 1e-8 for trial in study.trials)
    a = np.linspace(1.0, 3.0, 20001)
    assert result.value == pytest.approx(((a - 1.2) ** 2 + (1.5 / a - 2) ** 2).min(), abs=1e-4)


def test_an_output_that_must_meet_a_value_has_room_on_both_sides():
    problem = Problem(
        {"a": (0, 3)}, ["y"], blackbox=lambda x: x.a**2, maximize="a", subject_to={"target": "y == 2"}, noise=0,
        tolerance={"target": 0.01},
    )  # fmt: skip
    limits = problem.limits()
    assert {round(limit.value, 9): limit.is_upper for limit in limits.values()} == {2.01: True, 1.99: False}
    result = Study(problem, seed=0).run(12)
    assert result.is_feasible
    assert result.y.y == pytest.approx(2.01, abs=1e-5)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"m": "a + b == 7"}, "'m' cannot hold: .* between 0 and 6, and 7 is needed"),
        ({"m": "a + b == 2", "n": "2*a + 2*b == 5"}, "'n' contradicts the others"),
        ({"m": "a + b == 2", "n": "a - b == 1"}, "leave nothing to choose"),
        ({"m": "y == 2"}, r"say how near is near enough, tolerance=\{'m'"),
    ],
)
def test_an_equality_that_cannot_hold_is_told_before_any_evaluation(limits, said):
    with pytest.raises(StatementError, match=said):
        Problem({"a": (0, 3), "b": (0, 3)}, ["y"], maximize="y", subject_to=limits)


def test_an_equality_that_follows_from_another_changes_nothing():
    limits = {"m": "a + b == 2", "n": "2*a == 4 - 2*b"}
    assert Problem({"a": (0, 3), "b": (0, 3)}, ["y"], maximize="y", subject_to=limits).d == 1


def test_a_given_point_that_misses_an_equality_is_refused():
    with pytest.raises(StatementError, match="does not fit the others: 'blend' needs"):
        blend().point({"water": 0.5, "glycol": 0.3, "salt": 0.1, "T": 30})


def test_a_stepped_variable_that_cannot_keep_its_steps_is_refused():
    steps = {"a": Variable(0, 1, step=0.1), "b": Variable(0, 1, step=0.25)}
    with pytest.raises(StatementError, match="steps cannot be kept"):
        Problem(steps, ["y"], maximize="y", subject_to=["a + b == 1"])


# -------------------------------------------------------------------------------------------------------- the record


def test_a_study_with_labels_and_equalities_is_kept_and_goes_on(tmp_path):
    url = f"sqlite:///{tmp_path / 'lab.db'}"
    with Study(screening(), name="s", store=url, seed=3) as study:
        asked = [study.ask() for _ in range(3)]
        for trial in asked:
            study.tell(trial, reaction(trial.x))
        study.add({"n": 4, "solvent": "EtOH", "T": 70}, {"conversion": 0.4, "impurity": 0.7})
        following = study.ask()
    with Study(screening(), name="s", store=url) as again:
        assert [dict(trial.x) for trial in again.trials][:3] == [dict(trial.x) for trial in asked]
        assert dict(again.trials[3].x) == {"n": 4, "solvent": "EtOH", "T": 70.0}
        assert dict(again.trials[4].x) == dict(following.x)
        moved = again.tell(following, reaction(following.x), at={"solvent": "DMF"})
        assert moved.x.solvent == "DMF"
        with pytest.raises(UnknownName, match="Did you mean 'DMF'"):
            again.tell(again.ask(), {"conversion": 1.0}, at={"solvent": "DFM"})
    with Study(blend(), name="b", store=url, seed=0) as study:
        study.tell(study.ask(), {"viscosity": 3.0, "density": 1.1})
        study.revise(maximize="glycol")
        assert study.result().x is not None


def test_candidates_may_have_labels():
    table = [{"alloy": "steel", "mm": 2.0}, {"alloy": "tin", "mm": 1.0}, {"alloy": "steel", "mm": 3.0}]
    problem = Problem(candidates=table, outputs=["y"], maximize="y", noise=0, blackbox=lambda x: len(x.alloy) - x.mm)
    result = Study(problem, seed=0).run(5)
    assert dict(result.x) == {"alloy": "steel", "mm": 2.0}
    assert result.status is Status.DONE


@pytest.mark.parametrize(
    ("equality", "labels"), [("a + b == 2", 0), ("a + b == 2", 3), ("a**2 + b**2 == 2", 0)], ids=str
)
def test_where_equalities_leave_one_point_it_is_measured_once_for_each_label(equality, labels):
    """More measurements of exact outputs there would teach nothing, and the run is over."""
    variables = {"a": (0, 1), "b": (0, 1)}
    if labels:
        variables["solvent"] = Choice(*(f"s{place}" for place in range(labels)))
    problem = Problem(variables, ["y"], maximize="y", subject_to={"sum": equality}, noise={"y": 0.0})
    with Study(problem, seed=1) as study:
        for _ in range(max(1, labels)):
            trial = study.ask()
            study.tell(trial, {"y": float(trial.number)})
        assert len({trial.x.get("solvent") for trial in study.trials}) == max(1, labels)
        assert study.result().status is Status.DONE
        with pytest.raises(SolverDone):
            study.ask()


def test_equalities_leave_labels_where_they_are():
    """Points are moved along the variables of the equality alone."""
    variables = {"a": (0, 1), "b": (0, 1), "solvent": Choice("s", "t", "u")}
    problem = Problem(variables, ["y"], maximize="y", subject_to={"sum": "a + b == 1.5"})
    U = problem.grid.snapped(Stream(0).uniform(300, problem.d))
    moved = problem.settled(U, Stream(1))
    assert (moved[:, 1] == U[:, 1]).all()
    assert not np.allclose(moved[:, 0], U[:, 0])
