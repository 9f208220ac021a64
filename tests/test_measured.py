"""Values with errors: how they are said and kept, and what the belief makes of them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import Problem, StatementError, Study, TellError
from pied.errors import Contradiction
from pied.gp import GP, Model, ModelChoice
from pied.measured import Measured, checked, errors, of_repetitions, parts
from pied.records import Dataset, Entry, met
from pied.records.journal import keep, take_in
from pied.records.plain import from_plain, to_plain
from pied.records.sql import Store
from pied.rng import Stream
from pied.shell.readings import columns, row_values
from pied.shell.tables import Table
from shells import data, pied_


def reactor(**words: Any) -> Problem:
    return Problem({"x": (0.0, 1.0)}, ["p", "q"], maximize="p", subject_to={"limit": "q <= 0.6"}, **words)


# ----------------------------------------------------------------------------------------------------------- the value


@pytest.mark.parametrize("text", ["0.52 ± 0.01 (n=3)", "0.52+-0.01(n = 3)", " 0.52 +/- 0.01 (n=3) "])
def test_a_value_with_its_error_is_read_as_people_write_it(text: str) -> None:
    assert parts(text) == ("0.52", "0.01", 3)
    made = Measured(0.52, 0.01, 3)
    assert str(made) == "0.52 ± 0.01 (n=3)"
    assert made + 0.0 == 0.52
    assert from_plain(json.loads(json.dumps(to_plain({"y": made}))))["y"].error == made.error == 0.01 / math.sqrt(3)


def test_a_plain_number_has_no_error() -> None:
    assert parts("-1e-3") is None
    assert parts("1e+3") is None


@pytest.mark.parametrize(
    ("error", "count", "said"),
    [(-0.1, 1, "above 0, got -0.1"), (math.nan, 1, "got nan"), (math.inf, 1, "got inf"), (0, 1, "would make it exact"),
     (0.1, 0, "1 or more, got 0"), (0.1, 1.5, "1 or more, got 1.5"), ("x", 1, "numbers, got 'x'"), (None, 1, "None")],
)  # fmt: skip
def test_an_impossible_error_is_refused_with_a_sentence(error: Any, count: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked(1.0, error, count)


def test_repetitions_become_their_mean_and_scatter() -> None:
    made = of_repetitions([1.0, 2.0, 3.0])
    assert isinstance(made, Measured)
    assert (float(made), made.deviation, made.count) == (2.0, pytest.approx(1.0), 3)
    assert not isinstance(of_repetitions([2.0]), Measured)


def test_the_scatter_of_few_repetitions_is_drawn_toward_that_of_the_others() -> None:
    lucky, usual = Measured(1.0, 1e-6, 3), [Measured(1.0, 0.1, 3)] * 4
    assert errors([lucky]) == [lucky.error]
    assert lucky.error * 10 < errors([lucky, *usual])[0] < usual[0].error
    assert errors([Measured(1.0, 0.0, 3), *usual])[0] == pytest.approx(usual[0].error)
    assert math.isnan(errors([Measured(1.0, 0.0, 3)])[0])  # equal digits alone do not say how exact they are
    assert errors([1.0, Measured(1.0, 0.2)])[1] == 0.2


# ----------------------------------------------------------------------------------------------------------- the belief


def test_a_posterior_with_errors_equals_gpytorch_with_fixed_noise() -> None:
    Exact = pytest.importorskip("gpytorch_oracle").Exact
    U = Stream(1).uniform(14, 2)
    y, own = np.sin(4 * U[:, 0]) + U[:, 1], np.geomspace(0.01, 0.5, 14)
    own[::5] = np.nan
    usual, nugget = 0.05, 0.02
    choice = ModelChoice(
        "matern 5/2", "none", "none", "plain", (math.log(0.4), math.log(0.9), math.log(nugget)), 14, 14, noise=usual
    )
    gp = GP.at_choices(
        U, y[:, None], [choice], active=np.ones((1, 2), dtype=bool), ratios=np.ones(2), noise=[None],
        model=Model(), errors=own[:, None],
    )  # fmt: skip
    noise = np.where(np.isnan(own), usual, own) ** 2
    model = Exact(U, y, "matern 5/2", usual**2 / nugget, [0.4, 0.9], noise, mean=float(y.mean()))
    new = Stream(2).uniform(9, 2)
    mean, variance = model.moments(new)
    found, deviation = gp.moments(new)
    np.testing.assert_allclose(found[:, 0], mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(deviation[:, 0] ** 2, variance, rtol=1e-6)


def noisy(seed: int) -> tuple[Any, Any, Any, Any]:
    U, draw = Stream(seed).at("points").uniform(24, 1), Stream(seed).at("noise").normal(24, 1)
    truth = np.sin(6 * U)
    own = np.where(np.arange(24)[:, None] % 2 == 0, 0.02, 0.4)
    return U, truth + own * draw, own, truth


def test_errors_that_differ_are_worth_knowing() -> None:
    off = []
    for seed in range(5):
        U, Y, own, truth = noisy(seed)
        fits = [GP.fit(U, Y, noise=[None], errors=each) for each in (None, own)]
        off.append([float(np.abs(gp.unwarp(gp.moments(U)[0]) - truth).mean()) for gp in fits])
    assert np.median([known / ignored for ignored, known in off]) < 0.5


def test_the_noise_of_values_without_an_error_is_learned_beside_the_others() -> None:
    ratios = []
    for seed in range(5):
        U, Y, own, _ = noisy(seed)
        some = np.where(own < 0.1, own, np.nan)
        ratios.append(GP.fit(U, Y, noise=[None], errors=some).choices[0].noise / 0.4)
    assert 0.6 < np.median(ratios) < 1.7


def test_errors_of_an_output_over_decades_do_not_take_its_logarithm_away() -> None:
    off = []
    for seed in range(3):
        U, draw = Stream(seed).at("points").uniform(20, 2), Stream(seed).at("noise").normal(20, 1)
        truth = np.exp(4 * np.sin(2 * U[:, :1]) * U[:, 1:] - 2)
        fits = [GP.fit(U, truth * np.exp(0.05 * draw), noise=[None], errors=each) for each in (None, 0.05 * truth)]
        off.append([float(np.median(np.abs(gp.unwarp(gp.moments(U)[0]) / truth - 1))) for gp in fits])
    assert np.median([known / ignored for ignored, known in off]) < 1.4


def test_without_errors_nothing_changes() -> None:
    U, Y, _, _ = noisy(0)
    plain, none = (GP.fit(U, Y, noise=[None], errors=each) for each in (None, np.full(Y.shape, np.nan)))
    assert plain.choices == none.choices


def test_an_error_goes_through_g_to_the_probability_of_a_limit() -> None:
    found = []
    for error in (0.001, 0.2):
        with Study(reactor(), seed=1) as study:
            for x in np.linspace(0, 1, 8).tolist():
                study.add({"x": x}, {"p": (x, 0.01), "q": (0.5 + 0.05 * math.sin(9 * x), error)})
            found.append(study.recommend("observed").probability["limit"])
    assert found[0] > 0.95
    assert found[1] < found[0] - 0.02


def test_measurements_at_the_same_settings_count_by_their_precision() -> None:
    U, Y = np.array([[0.5], [0.5]]), np.array([[1.0, 0.5], [1.0, 1.0]])
    alike = Dataset((1, 2), U, Y, U[:0])
    sharp = Dataset((1, 2), U, Y, U[:0], errors=np.array([[np.nan, 0.01], [np.nan, 1.0]]))
    assert not met(reactor(), alike).any()
    assert met(reactor(), sharp).all()


# ----------------------------------------------------------------------------------------------------------- the record


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else str(tmp_path / "lab.db")


def told(study: Study) -> Any:
    trial = study.trials[0]
    assert trial.y is not None
    return trial.y["p"]


def test_what_was_told_is_kept_corrected_and_in_the_history(place: str | None) -> None:
    with Study(reactor(), name="lab", store=place, seed=1, solver="random") as study:
        study.tell(study.ask(), {"p": (0.52, 0.01, 3), "q": "0.5 +- 0.02"})
        study.tell(1, {"p": 0.52})  # says no more
        assert str(told(study)) == "0.52 ± 0.01 (n=3)"
        with pytest.raises(Contradiction, match=r"was told as 0.52 ± 0.01 \(n=3\) and cannot become 0.52 ± 0.02"):
            study.tell(1, {"p": (0.52, 0.02)})
        study.correct(1, {"p": (0.52, 0.03)}, why="another balance")
        said = [each.what for each in study.history(1)]
        assert "told: p = 0.52 ± 0.01 (n=3), q = 0.5 ± 0.02" in said
        assert "told again: p = 0.52" in said
        assert "refused: p = 0.52 ± 0.02" in said
        assert "corrected: p = 0.52 ± 0.03 instead of 0.52 ± 0.01 (n=3) (another balance)" in said
        assert said.count("told: p = 0.52 ± 0.03") == 0
    if place is not None:
        with Study(reactor(), name="lab", store=place) as study:
            assert str(told(study)) == "0.52 ± 0.03"
            study.correct(1, {"p": 0.52}, why="no error is known")
            assert not isinstance(told(study), Measured)


def test_what_cannot_have_an_error_is_refused() -> None:
    with Study(reactor(noise={"p": 0.0}), seed=1, solver="random") as study:
        with pytest.raises(TellError, match=r"'p' is stated to be exact \(noise = 0\)"):
            study.tell(study.ask(), {"p": (0.5, 0.1)})
        with pytest.raises(TellError, match=r"Output 'q': the error after ± is a standard deviation.* got -0.1"):
            study.tell(1, {"q": (0.5, -0.1)})
        with pytest.raises(TellError, match="should be written like"):
            study.tell(1, {"q": "low ± 0.1"})


def test_a_row_that_is_there_without_its_error_is_not_added_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with Study(reactor(), seed=1) as study:
        study.add({"x": 0.5}, {"p": 0.5, "q": (0.5, 0.1)})
        assert study.add_all([({"x": 0.5}, {"p": (0.5, 0.1), "q": (0.5, 0.1)})]) == {}
        assert "trial 1 is there without the error of 'p': correct it" in caplog.text


def test_an_output_with_errors_does_not_count_as_exact() -> None:
    with Study(reactor(), seed=1, solver="random") as study:
        study.add({"x": 0.5}, {"p": (0.7, 0.1), "q": 0.7})
        study.tell(study.ask(), {"p": (0.5123456789, 0.1), "q": 0.5123456789})
        study.tell(study.repeat(2), {"p": (0.5123456789, 0.1), "q": 0.5123456789})
        assert study.problem.exact_by_repetition == ("q",)


def test_a_black_box_may_state_its_errors() -> None:
    problem = reactor(blackbox=lambda x: {"p": (x.x, 0.1), "q": (0.5, 0.01, 4)})
    with Study(problem, seed=1, solver="random") as study:
        study.run(2)
        assert told(study).deviation == 0.1
        assert problem.evaluate({"x": 0.25}).tolist() == [0.25, 0.5]


def test_a_result_kept_beside_the_store_keeps_its_error(tmp_path: Path) -> None:
    with Study(reactor(), name="lab", store=str(tmp_path / "lab.db"), seed=1, solver="random") as study:
        study.ask()
        with Store.connect(tmp_path / "lab.db") as store:
            record = store.record("lab")
            assert keep(record, Entry(1, {"p": Measured(0.5, 0.1, 2), "q": 0.1})) is not None
            assert take_in(record) == 1
        assert str(told(study)) == "0.5 ± 0.1 (n=2)"


# ------------------------------------------------------------------------------------------------- tables and the shell


def read(text: str) -> list[str]:
    table = Table.parse(text, "t.csv")
    assert set(columns(reactor(), table)) <= set(table.columns)
    return [", ".join(f"{n} {v}" for n, v in row_values(table, i, reactor()).items()) for i in range(len(table.rows))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x,p,p_sd,p_n\n0,0.5,0.1,3\n1,0.6,,\n", ["p 0.5 ± 0.1 (n=3)", "p 0.6"]),
        ("x;p\n0;0,5 ± 0,1\n", ["p 0.5 ± 0.1"]),
        ("x,p_1,p_2,p_3,q\n0,1,2,3,7\n1,4,,,\n1,,,,\n", ["p 2.0 ± 1.0 (n=3), q 7.0", "p 4.0", ""]),
    ],
)
def test_tables_state_errors_in_columns_cells_or_repetitions(text: str, wanted: list[str]) -> None:
    assert read(text) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,p,p_n\n0,0.5,3\n", "'p_n' counts repetitions"),
        ("x,p,p_sd\n0,0.5 ± 0.1,0.1\n", "behind ±: keep one of them"),
        ("x,p,p_sd\n0,0.5,-1\n", "line 2, 'p': the error after ± is a standard deviation"),
    ],
)
def test_a_table_with_impossible_errors_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        read(text)


def test_the_shell_tells_exports_and_reads_back(lab: Path) -> None:
    pied_("ask", "lab.toml")
    done = data("tell", "lab.toml", "1", "product=0.52 ± 0.01 (n=3)", "impurity=0.05")
    assert done["errors"] == {"product": {"deviation": 0.01, "n": 3}}
    assert "0.52 ± 0.01 (n=3)" in pied_("status", "lab.toml").output
    refused = pied_("tell", "lab.toml", "1", "product=0.53 +- 0.01", code=2).output
    assert "'product=0.53 ± 0.01'" in refused or "product='0.53 ± 0.01'" in refused
    pied_("export", "lab.toml", "--output", "out.csv")
    assert "product,product_sd,product_n,impurity," in (lab / "out.csv").read_text()
    pied_("add", "lab.toml", "out.csv", "--store", "other.db")
    again = pied_("export", "lab.toml", "--store", "other.db", "--full").output
    assert "0.52,0.01,3,0.05" in again


def test_an_instrument_tells_errors_over_http(lab: Path) -> None:
    pytest.importorskip("starlette")
    from pied.web.data import words_of

    given = {"product": {"value": 0.5, "deviation": 0.1, "n": 2}, "impurity": "0.1 ± 0.2", "c": [1, 2]}
    assert words_of(given) == ["product=0.5 ± 0.1 (n=2)", "impurity=0.1 ± 0.2", "c=1,2"]
