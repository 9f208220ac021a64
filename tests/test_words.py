"""Results as people say them: names, units, limits, and no digit that means nothing."""

import json
import re
from pathlib import Path

import pytest

from pied import Problem, StatementError, Study
from pied.records import key
from pied.study import Words, about, counted, figure, percent
from pied.study.words import Margin
from shells import LAB, data, pied_


def reactor(**words: object) -> Problem:
    given: dict[str, object] = {
        "variables": {"T": (60.0, 100.0)},
        "outputs": {"impurity": {"unit": "mol/L"}, "rate": {}},
        "maximize": "20*rate",
        "subject_to": {"purity": "impurity <= limit", "fast": "0.2 <= rate", "both": "impurity <= rate"},
        "constants": {"limit": 0.06},
        "name": "profit",
        "unit": "EUR/h",
        "noise": 0.01,
    }
    return Problem(**(given | words))  # type: ignore[arg-type]


def measured(problem: Problem) -> Study:
    study = Study(problem, seed=0)
    for T, impurity, rate in ((60, 0.01, 0.2), (70, 0.02, 0.4), (80, 0.04, 0.5), (90, 0.06, 0.55), (100, 0.09, 0.56)):
        study.add({"T": T}, {"impurity": impurity, "rate": rate})
    return study


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (84.2392422, 2.92, "84.2"), (0.0532, 0.011, "0.053"), (123456.0, 5000.0, "123500"), (-0.001, 1.0, "0.0"),
        (75.8199528, 0.0, "75.8199528"), (1.23456e-7, 1e-8, "1.23e-07"), (0.5, None, "0.5"), (0.06, 0.011, "0.060"),
    ],
)  # fmt: skip
def test_a_number_has_the_digits_that_its_uncertainty_leaves(value: float, width: float | None, text: str) -> None:
    assert figure(value, width) == text


def test_rough_numbers_and_probabilities() -> None:
    assert [about(each) for each in (3.27, 0.000339, 1234.0, 0.0)] == ["3.3", "0.00034", "1200", "0"]
    assert [percent(each) for each in (1.0, 0.953, 0.001)] == ["> 99 %", "95 %", "< 1 %"]


def test_a_limit_is_the_quantity_and_its_limit_in_its_unit() -> None:
    words = Words.of(reactor())
    assert words.limit(Margin("purity", 0.007, 0.011, 0.999)) == (
        "impurity 0.053 mol/L, limit 0.060 mol/L: met (> 99 %)"
    )
    assert words.limit(Margin("fast", -0.05, 0.06, 0.02)) == "rate 0.150, at least 0.200: NOT met (2 %)"
    assert words.limit(Margin("both", 0.31, 0.2, 0.7)) == "both: margin 0.31, probably met (70 %)"
    assert words.relaxed("purity", 0.0093) == "impurity <= 0.0693 mol/L"
    assert words.relaxed("fast", 0.03) == "rate >= 0.17"


def test_both_sides_of_a_limit_are_one_line_with_the_probability_that_both_hold() -> None:
    words = Words.of(
        reactor(subject_to={"window": "0.2 <= rate <= 0.8", "low": "impurity >= 0", "up": "impurity <= 1"})
    )
    low, up = Margin("window (1)", 0.1, 0.02, 0.95), Margin("window (2)", 0.5, 0.02, 0.9)
    sides = [Margin("low", 0.5), low, up, Margin("up", 0.5)]
    told = words.limit_lines(sides)
    assert [each.text for each in told] == [
        "impurity 0.5 mol/L, limits 0.0 to 1.0 mol/L: met",
        "rate 0.300, limits 0.200 to 0.800: probably met (85 %)",
    ]
    assert [each.name for each in told] == ["low, up", "window"]
    broken = words.limit_lines([low, Margin("window (2)", -0.1, 0.02, 0.04)])
    assert [(each.text, each.is_met) for each in broken] == [
        ("rate 0.300, limits 0.200 to 0.800: NOT met (< 1 %)", False)
    ]


def test_of_many_limits_those_that_bind_are_listed_and_the_others_counted() -> None:
    words = Words.of(reactor(subject_to={f"l{i}": f"rate <= {i + 1}" for i in range(20)}, constants=None))
    margins = [Margin(f"l{i}", float(i + 1) - 12.0 if i < 15 else 0.0) for i in range(20)]
    told = words.limit_lines(margins)
    assert [each.name for each in told[:11]] == [f"l{i}" for i in range(11)]  # broken, the worst first
    assert [each.is_met for each in told] == [False] * 11 + [True]
    assert told[-1].text == "9 more limits: met"
    told = words.limit_lines([Margin(f"l{i}", 20.0 - i, 0.1, 0.999) for i in range(20)])
    assert [each.name for each in told] == ["l19", "l18", "l17", "l16", "l15", ""]
    assert told[-1].text == "15 more limits: met (each > 99 %)"
    assert len(words.limit_lines(margins[11:18])) == 7


def test_a_result_names_the_objective_its_unit_and_what_is_still_possible() -> None:
    shown = str(measured(reactor()).result())
    assert "  profit about " in shown
    assert " EUR/h (probably " in shown
    assert "mol/L, limit 0.06" in shown
    assert shown.endswith("  0 proposed, 5 older; seed 0")
    for word in ("slack", "median", "affine", "box", "gap"):
        assert word not in shown


def test_a_measured_value_is_told_apart_from_the_true_one() -> None:
    assert " measured; true value probably " in str(measured(reactor()).result("observed"))


def test_counts_are_proposed_measured_failed_and_older() -> None:
    study = measured(reactor())
    study.tell(study.ask(), {"impurity": 0.05, "rate": 0.5})
    study.fail(study.ask(), "pump tripped")
    assert counted(study.trials) == "2 proposed (1 measured, 1 failed), 5 older"


def test_a_name_and_units_do_not_change_the_question() -> None:
    plain = reactor(name=None, unit="", outputs=["impurity", "rate"])
    assert plain.objective == "20*rate"
    assert key(plain.statement()) == key(reactor().statement())
    assert reactor().revised(constants={"limit": 0.05}).objective == "profit"
    assert reactor().units == {"impurity": "mol/L"}


def test_an_earlier_question_comes_back_with_its_words() -> None:
    study = measured(reactor())
    study.revise(constants={"limit": 0.05})
    old = study.compare().old
    assert old is not None
    assert old.objective == "profit"
    assert old.words is not None
    assert old.words.units == {"impurity": "mol/L"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "rate"}, "'rate' is both a variable, output or constant and the objective"),
        ({"name": ""}, "must be text that is not empty"),
        ({"unit": 3}, "unit should be a text"),
        ({"outputs": {"impurity": {"units": "g"}, "rate": {}}}, "should be described as {'unit': 'mol/L'"),
    ],
)
def test_a_mistake_in_names_and_units_is_said(words: dict[str, object], message: str) -> None:
    with pytest.raises(StatementError, match=message.replace("{", r"\{")):
        reactor(**words)


def test_a_measurement_is_expected_where_the_data_lie() -> None:
    low, middle, high = measured(reactor()).expect({"T": 75.0})["impurity"]
    assert low < middle < high
    assert low < 0.03 < high
    assert high - low > 3 * 0.01  # the noise of a measurement is included


def test_a_file_names_objective_and_units(lab: Path) -> None:
    text = LAB.replace("impurity = {", 'impurity = { unit = "g/L",')
    (lab / "lab.toml").write_text(f'name = "profit"\nunit = "EUR/h"{text}')
    shown = pied_("check", "lab.toml").output
    assert "maximize profit = price*product - 0.4*time   in EUR/h" in shown
    assert "impurity (temperature, time)   g/L   noise 0.001" in shown
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n80,3,0.6,0.06\n")
    pied_("add", "lab.toml", "old.csv")
    assert "g/L, limit 0.08" in pied_("result", "lab.toml").output
    shown = pied_("status", "lab.toml").output
    assert "0 proposed, 3 older." in shown
    assert "older; profit 7.6 EUR/h, all limits met" in shown


def test_ask_says_what_is_expected_of_each_output_and_on_demand_why(lab: Path) -> None:
    (lab / "lab.toml").write_text(LAB.replace('solver = "random"\n', ""))
    (lab / "old.csv").write_text(
        "temperature,time,product,impurity\n60,1,.4,.03\n70,2,.5,.04\n80,3,.6,.06\n99,5,.7,.1\n"
    )
    pied_("add", "lab.toml", "old.csv")
    shown = pied_("ask", "lab.toml").output
    assert "  expected: product 0." in shown
    assert "aim" not in shown
    why = pied_("ask", "lab.toml", "--why").output
    assert re.search(r"Found in \d+\.\d s\.", why)
    assert "Margins of the limits there: purity " in why
    assert not re.search(r"\baim\b|\bplain\b|\bactive\b|\boptimum\b", why)
    assert set(json.loads(json.dumps(data("ask", "lab.toml")["expected"]))) == {"product", "impurity"}


# words of the method, which a person at the bench does not use; `--why` shows them
METHOD = re.compile(r"\b(?:affine|white|verify|box|statement|traceback)\b", re.IGNORECASE)


def test_no_verb_speaks_in_the_words_of_the_method(lab: Path) -> None:
    (lab / "lab.toml").write_text(LAB.replace('solver = "random"\n', ""))
    (lab / "odd.toml").write_text(LAB.replace("[constants]", "odd = 'product >= 1.5'\n[constants]"))
    (lab / "narrow.toml").write_text(LAB.replace("time = [0.5, 6]", "time = [1.0, 1.0000000000000002]"))
    (lab / "old.csv").write_text(
        "temperature,time,product,impurity\n60,1,.4,.03\n70,2,.5,.04\n80,3,.6,.06\n200,3,.6,.06\n"
    )
    (lab / "picture.txt").write_text("nothing")
    said = []
    for line in """
        --help | init new.toml | check lab.toml | check odd.toml | check narrow.toml | check nothing.toml
        check reactor | status lab.toml | result lab.toml | ask lab.toml | tell lab.toml 1 product=70
        tell lab.toml 1 produkt=0.7
        tell lab.toml 1 product=0.7 | tell lab.toml 1 product=0.8 | tell lab.toml 1 impurity=0.04 --at time=5
        tell lab.toml 1 product=0.7 --at time=500 | tell lab.toml 9 product=0.7 | tell lab.toml --from picture.txt
        add lab.toml old.csv | add lab.toml old.csv | add lab.toml picture.txt | ask lab.toml | fail lab.toml 5 leak
        ask lab.toml --count 2 --csv plan.csv | tell lab.toml --from plan.csv | fail lab.toml 1 leak
        tell lab.toml 5 product=0.7 | correct lab.toml 1 product=0.71 | correct lab.toml 1 product=0.71 --why typo
        withdraw lab.toml 2 --why contaminated | restore lab.toml 2 | restore lab.toml 2 | note lab.toml 1 hello
        note lab.toml 99 hello | history lab.toml | history lab.toml 1 | status lab.toml | result lab.toml
        revise lab.toml | revise lab.toml --set price=30 | revise lab.toml --rename product=p | export lab.toml
        plot lab.toml --kind gap --output gap.svg | plot lab.toml --kind region --output gap.xyz | run lab.toml
        report lab.toml --output report.html
    """.replace("\n", "|").split("|"):
        words = line.split()
        if words:
            done = pied_(*words, code=(0, 2, 3, 4))
            said += [(line.strip(), part) for part in done.output.splitlines() if METHOD.search(part)]
    text = re.sub(r"base64,[^']*|<style>.*?</style>", "", (lab / "report.html").read_text(), flags=re.S)
    text = text.partition("Settings and versions")[0]
    assert said == []
    assert METHOD.findall(re.sub(r"<[^>]+>", " ", text)) == []


def test_the_rule_of_recommendation_is_one_sentence() -> None:
    words = Words(objective="cost", unit="EUR", minimizes=True)
    said = words.chosen("anywhere", (70.1, 82.4), 7, has_limits=True)
    assert said == (
        "Of all settings whose limits hold by a cautious estimate, these have the best cautious value: at most 82 EUR "
        "(trial 7)."
    )
    assert words.chosen("observed", (0, 1), None, has_limits=False) == "Of all measured settings, these are the best."
