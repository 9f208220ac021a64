"""Small statements and long records do not exhaust the machine: stated limits, checked first, with a sentence.

Where memory is the claim, the attack runs in a process that may take only so much more than it has after its imports.
"""

import cProfile
import json
import pstats
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import Named, Problem, Study
from pied.bounds.believer import Believer
from pied.errors import EvaluationError, FormulaError, PiedError, StatementError, StoreError, did_you_mean
from pied.evaluation.command import Command
from pied.problem import formula, parser, symbols, validation
from pied.records.sql import Store
from pied.records.trial import Dataset
from pied.shell import statement_file
from pied.shell.tables import Table
from pied.study.recommendation import NEAREST, recommend
from tiny import unchecked

HEAD = 'maximize = "y"\n[variables]\na = [0, 1]\n[outputs]\ny = {}\n'

# ------------------------------------------------------------------------------------------------------------ formulas


def test_a_chain_has_at_most_so_many_comparisons() -> None:
    scope = formula.Scope(("a",))
    fine = " <= ".join(["a"] * (parser.MOST_COMPARISONS + 1))
    assert len(formula.Formula.constraints(fine, scope)) == parser.MOST_COMPARISONS
    with pytest.raises(FormulaError, match="at most 32 comparisons"):
        formula.Formula.constraints("<=".join(["a"] * 3300), scope)


@pytest.mark.slow
def test_chains_count_as_constraints() -> None:
    chains = {str(i): " <= ".join([f"{i} + a"] * (parser.MOST_COMPARISONS + 1)) for i in range(40)}
    with unchecked(), pytest.raises(StatementError, match="constraints are too many, at most 1,000"):
        Problem({"a": (0, 1)}, ["y"], maximize="y", subject_to=chains)


def test_functions_of_many_outputs_are_called_few_times() -> None:
    calls = []

    def few(x: Named, y: Named) -> Any:
        calls.append(1)
        return np.sort(y.array[..., [6, 99]], -1)[..., 0] * x.a  # called on arrays

    names = [f"c[{i}]" for i in range(1, 301)]
    problem = Problem({"a": (0, 1)}, names, maximize=few)
    assert problem.structure[0].outputs == (6, 99)
    assert len(calls) < 60  # 300 and more when each output was moved by itself


def test_a_function_of_too_many_steps_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def long(x: Named, y: Named) -> Any:
        return sum(x.a * y.y / (1 + place) for place in range(100))

    with unchecked():
        assert "program" in Problem({"a": (0, 1)}, ["y"], maximize=long).ways["long"]
        monkeypatch.setattr(symbols, "MOST_STEPS", 100)
        assert "called on arrays" in Problem({"a": (0, 1)}, ["y"], maximize=long).ways["long"]


def test_an_output_that_matters_in_jumps_alone_is_found() -> None:
    def steps(x: Named, y: Named) -> Any:
        return x.a * y["c[3]"] + np.where(y["c[42]"] > 0, 1.0, 0.0)

    problem = Problem({"a": (0, 1)}, [f"c[{i}]" for i in range(1, 101)], maximize=steps)
    assert problem.structure[0].outputs == (2, 41)


# ---------------------------------------------------------------------------------------------------------- statements


def stated(folder: Path, text: str) -> Any:
    (folder / "lab.toml").write_text(text)
    return statement_file.read(str(folder / "lab.toml"))


STATEMENTS: dict[str, tuple[str, str]] = {
    "dotted key": (".".join(["a"] * 20_000) + " = 1", "nested too deeply"),
    "dotted heading": ("[" + ".".join(["'a'"] * 20_000) + "]", "nested too deeply"),
    "dotted inside": ("a = {" + " . ".join(["b"] * 20_000) + " = 1}", "nested too deeply"),
    "nested": ("a = " + "[{b = " * 100_000, "nested too deeply"),
    "digits": (HEAD + "[study]\nseed = " + "9" * 5000, "is not valid TOML.*digits"),
    "hex digits": (HEAD + "[study]\nseed = 0x" + "f" * 5000, "too large"),
    "hex list": (HEAD + "[solver]\nname = [0x" + "f" * 5000 + "]", "thousands of digits"),
    "digits in a variable": (HEAD.replace("[0, 1]", f"[0, 0x{'f' * 5000}]"), "finite number"),
    "quotes": ('"""\\' * 50_000, "is not valid TOML"),
    "variables": ("\n".join([HEAD, "[variables.b]", *(f"v{i} = [0, 1]" for i in range(3))]), "no key"),
    "outputs": (HEAD.replace("y = {}", "\n".join(f"c{i} = {{ length = 1000 }}" for i in range(10))), "no 'y'"),
}


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_statement_that_would_exhaust_the_machine_is_refused(tmp_path: Path, kind: str) -> None:
    text, said = STATEMENTS[kind]
    with pytest.raises(StatementError, match=f"(?s){said}") as caught:
        stated(tmp_path, text)
    assert len(str(caught.value)) < 1000


def test_strings_and_comments_may_have_dots_and_brackets(tmp_path: Path) -> None:
    odd = "[" * 99 + "." * 99
    text = f'# {odd}\n{HEAD}[study]\nname = """\n{odd} \\" {odd}"""\n[subject_to]\n"{odd}" = \'a <= 0.9\'\n'
    assert stated(tmp_path, text).problem.constraints == (odd,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"variables": {f"v{i}": (0, 1) for i in range(22_000)}, "outputs": ["y"]}, "22,000 variables are too many"),
        ({"variables": {"a": (0, 1)}, "outputs": [f"y{i}" for i in range(10_000)]}, "10,000 outputs are too many"),
        ({"variables": {f"v{i}": (0, 1) for i in range(900)}, "outputs": [f"y{i}" for i in range(1900)]}, "pairs"),
        ({"variables": {"a": (0, 1)}, "outputs": ["y"], "constants": {"v": range(10**6)}}, "numbers in constant 'v'"),
        (
            {"variables": None, "outputs": ["y"], "candidates": {f"v{i}": [0, 1] for i in range(2000)}},
            "2,000 variables",
        ),
        ({"variables": {"a": (0, 10**5000)}, "outputs": ["y"]}, "should be a number"),
        ({"variables": {"a": (0, 1)}, "outputs": ["y"], "noise": -(10**5000)}, "should be a number"),
    ],
)
def test_a_problem_too_large_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(StatementError, match=said):
        Problem(maximize="y" if given["outputs"] == ["y"] else "y0", **given)


@pytest.mark.slow
def test_all_that_is_allowed_is_possible() -> None:
    names = [f"y{i}" for i in range(validation.MOST_OUTPUTS)]
    problem = Problem({"a": (0, 1)}, names, maximize="sum(outputs^2)", noise={"y1": 0.1})
    assert len(problem.structure[0].outputs) == validation.MOST_OUTPUTS


def test_long_names_are_not_compared() -> None:
    assert did_you_mean("a" * 100_000, ["b" * 100_000, "a" * 100_000]).startswith(" Known")


def test_an_address_whose_port_is_no_number_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="is not the address of a store"):
        Store.connect("postgresql+psycopg://me:secret@host:port/base")


# -------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",".join(f"c{i}" for i in range(200_000)), "line 1: more than 10,000 columns"),
        ("a,b\n" + "," * 1_000_000, "line 2: more than 10,000 columns"),
        ("a,b\n" + "1,2\n" * 1_000_001, "more than 2,000,000 cells"),
    ],
)
def test_a_table_too_large_is_refused(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        Table.parse(text, "t.csv")


def test_a_wide_table_is_read() -> None:
    names = [f"c{i}" for i in range(9_000)]
    assert Table.parse(",".join(names) + "\n" + ",".join(["1"] * 9_000), "t.csv").columns == tuple(names)


# ------------------------------------------------------------------------------------------------------------ programs

LOUD = """
import sys
line = "x" * 999 + "\\n"
for _ in range({lines}):
    sys.stdout.write(line)
    sys.stderr.write(line)
sys.stderr.write("the last words")
print({answer!r})
sys.exit({code})
"""
CAPPED = """
import resource, sys
from pied.evaluation.command import Command
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + {extra}, size + {extra}))
print(Command((sys.executable, {program!r}), ("a",))({{"a": 1.0}}))
"""
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are those of Linux")


def loud(folder: Path, lines: int, code: int = 0, answer: str = "1.5") -> str:
    file = folder / "loud.py"
    file.write_text(LOUD.format(lines=lines, code=code, answer=answer))
    return str(file)


@on_linux
@pytest.mark.slow
def test_a_program_may_print_more_than_memory_holds(tmp_path: Path) -> None:
    code = CAPPED.format(extra=250_000_000, program=loud(tmp_path, 300_000))
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert made.stdout == "1.5\n", made.stderr[-2000:]


def test_the_last_words_of_a_loud_program_are_kept(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"(?s)exit code 3; it said: .*the last words") as caught:
        Command((sys.executable, loud(tmp_path, 2_000, 3)), ("a",))({"a": 1.0})
    assert len(str(caught.value)) < 1000


def test_an_answer_over_several_lines_is_read_whole(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("import json, sys\nx = json.load(sys.stdin)\nprint(json.dumps({'y': x['a']}, indent=2))")
    assert Command((sys.executable, str(program)), ("a",))({"a": 1.5}) == {"y": 1.5}


# -------------------------------------------------------------------------------------------------------- long records


def line(count: int, **words: Any) -> Study:
    """A study with so many added points."""
    study = Study(Problem({"a": (0, 1)}, ["y"], maximize="y - a", noise=0), seed=0, **words)
    points = [(place + 0.5) / count for place in range(count)]
    study.add_all([({"a": a}, {"y": a * (2.0 - a)}) for a in points])
    return study


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions are called in some work: a measure of it that no other process disturbs."""
    with cProfile.Profile() as profile:
        work()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_asking_costs_a_few_calls_for_each_trial_of_the_record() -> None:
    counts = []
    for size in (500, 1000):
        with unchecked(), line(size, solver="random") as study:
            _ = study.trials
            counts.append(calls_of(study.ask))
    assert counts[1] < 2.5 * counts[0]


@dataclass(frozen=True)
class Counting(Believer):
    """A believer that writes down how much it was told."""

    seen: list[int] = field(default_factory=list)

    def fit(self, problem: Problem, data: Dataset, previous: Any = None, **words: Any) -> Any:
        self.seen.append(len(data.U) + len(data.imagined))
        return super().fit(problem, data, previous, **words)


@pytest.mark.slow
def test_an_observed_point_is_bounded_by_the_points_around_it() -> None:
    with line(3 * NEAREST) as study:
        believer, data = Counting(), study.data
        found = recommend(study.problem, data, "observed", believer=believer)
    assert believer.seen == [NEAREST]
    assert found is not None
    assert found.row is not None
    assert data.functions(study.problem)[found.row, 0] == data.functions(study.problem)[:, 0].max()
    assert float(found.lower[0]) <= float(found.value[0]) <= float(found.upper[0])


def test_the_points_around_one_are_its_nearest_in_order() -> None:
    U = np.array([[0.9], [0.1], [0.5], [0.45], [0.0]])
    data = Dataset((1, 2, 3, 4, 5), U, U, U + 0.01, failures=(0, 2, 3))
    near = data.near(np.array([0.5]), 3)
    assert near.numbers == (1, 3, 4) or near.numbers == (2, 3, 4)
    assert near.U[-2:, 0].tolist() == [0.5, 0.45]
    np.testing.assert_allclose(near.failed[-2:, 0], [0.51, 0.46], rtol=1e-15)
    assert data.near(U[0], 9).numbers == data.numbers


# -------------------------------------------------------------------------------------------------------------- memory

ATTACKS = """
import json, resource, sys, tempfile
from pathlib import Path
import numpy as np
from pied import Problem, Study
from pied.errors import PiedError
from pied.shell import statement_file
import pied.study.snapshot, pied.records.sql

folder = Path(tempfile.mkdtemp())

def statement(text):
    (folder / "lab.toml").write_text(text)
    return statement_file.read(str(folder / "lab.toml"))

def dotted():
    statement(".".join(["a"] * 30_000) + " = 1")

def vectors():
    outputs = "\\n".join(f"c{i} = { length = 1000 }".replace("{i}", str(i)) for i in range(10))
    statement('maximize = "sum(c0)"\\n[variables]\\na = [0, 1]\\n[outputs]\\n' + outputs)

def million():
    (folder / "d.csv").write_text("v\\n" + "1.5\\n" * 200_000)
    statement('maximize = "sum(v*y)"\\n[variables]\\na = [0, 1]\\n[outputs]\\ny = {}\\n[constants]\\n'
              'v = { file = "d.csv", column = "v" }')

def data():
    v = [i / 1e4 for i in range(10_000)]
    p = Problem({"a": (0, 1)}, ["y"], minimize="sum((v*a - y)^2)", constants={"v": v})
    value, back = p.traced(np.full((10, 1), 0.5), np.full((256, 10, 1), 0.1), (0,))
    back(np.ones_like(value))
    p.g(np.full((100, 1), 0.5), np.full((64, 100, 1), 0.1))
    return "fine"

def record():
    with Study(Problem({"a": (0, 1), "b": (0, 1)}, ["y", "z"], maximize="y", subject_to=["z <= 0.5"], noise=0), seed=0,
               solver="random") as study:
        points = np.random.default_rng(0).random((5_000, 2)).tolist()
        study.add_all([({"a": a, "b": b}, {"y": float(np.sin(5 * a) + b), "z": a * b}) for a, b in points])
        return "fine" if study.result("observed").is_feasible else "not feasible"

size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size + 700_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = {}
for attack in (dotted, vectors, million, data, record):
    try:
        found[attack.__name__] = str(attack())
    except (PiedError, MemoryError, RuntimeError) as error:
        found[attack.__name__] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def attacked() -> dict[str, str]:
    """What came of each attack, within 700 megabytes for all of them."""
    code = ATTACKS.replace("{ length", "{{ length").replace('1000 }"', '1000 }}"')
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    return json.loads(made.stdout)


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "outcome"),
    [
        ("dotted", "StatementError: .*nested too deeply"),
        ("vectors", "StatementError: .*10,000 outputs are too many"),
        ("million", "StatementError: .*200,000 numbers in constant 'v' are too many"),
        ("data", "fine"),
        ("record", "fine"),
    ],
)
def test_an_attack_on_memory_is_refused_or_harmless(attacked: dict[str, str], attack: str, outcome: str) -> None:
    with pytest.raises(PiedError, match=f"^{outcome}"):
        raise PiedError(attacked[attack])
