"""Problems from files: what a statement means, and one sentence with file, place and remedy for every mistake."""

import contextlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pied import FormulaError, PiedError, Problem, StatementError
from pied.shell.statement import TEMPLATE
from pied.shell.statement_file import LONGEST, RUN, STUDY, Stated, read
from pied.shell.toml_page import TOP

REACTOR = """
maximize = "(price*X_P + 20.92*X_E)*(F_A + F_B) - 118.34*F_B"
noise = 0.001
inputs = ["T_r", "F_B"]
tolerance = 1e-4
solver = { name = "cuqb", level = 0.9 }

[variables]
F_B = [4, 7]
T_r = { lo = 70, hi = 100.0, unit = "degC", log = true }

[outputs]
X_A = { range = [0, 1], noise = 0.01 }
X_G = { range = [0, inf], inputs = ["T_r"] }
X_P = {}
"X E" = {}
X_E = {}

[subject_to]
"residual A" = "X_A <= 0.12"
window = { formula = "0.01 <= X_G <= 0.08", tolerance = 0.002 }

[constants]
F_A = 1.8275
price = 1043

[study]
name = "week 12"
seed = 7
initial = 4
patience = 2
lease_hours = 48
stop_at_gap = 0.5

[run]
command = "simulate --feed {F_B} --hot {T_r}"
timeout = 30
retries = 2
workers = 3
"""
LEAST = "[variables]\na = [0, 1]\n[outputs]\ny = {}\n"


def stated(folder: Path, text: str, name: str = "reactor.toml") -> Stated:
    (folder / name).write_text(text, encoding="utf-8")
    return read(str(folder / name))


# ------------------------------------------------------------------------------------------------------------- reading


def test_a_statement_says_everything_a_problem_and_its_study_need(tmp_path: Path) -> None:
    found = stated(tmp_path, REACTOR)
    problem = found.problem
    assert list(problem.variables) == ["F_B", "T_r"]
    assert (problem.variables["T_r"].unit, problem.variables["T_r"].log) == ("degC", True)
    assert problem.outputs == ("X_A", "X_G", "X_P", "X E", "X_E")
    assert problem.ranges.tolist()[:3] == [[0, 1], [0, math.inf], [-math.inf, math.inf]]
    assert problem.noise == (0.01, 0.001, 0.001, 0.001, 0.001)
    assert problem.active.tolist()[:2] == [[True, True], [False, True]]
    assert problem.constraints == ("residual A", "window (1)", "window (2)")
    assert problem.tolerance == (1e-4, 0.002, 0.002)
    assert problem.constants == {"F_A": 1.8275, "price": 1043.0}
    assert not problem.minimizes
    assert (found.name, found.store, found.workers) == ("week 12", tmp_path / "reactor.db", 3)
    assert found.study == {
        "seed": 7, "initial": 4, "patience": 2, "lease": 48 * 3600.0, "stop_at_gap": 0.5, "solver": "cuqb",
        "settings": {"level": 0.9},
    }  # fmt: skip
    assert found.command is not None
    assert (str(found.command), found.command.timeout, found.command.retries) == (
        "simulate --feed '{F_B}' --hot '{T_r}'", 30.0, 2,
    )  # fmt: skip


def test_the_same_statement_in_python_and_in_toml_asks_the_same_question(tmp_path: Path) -> None:
    given = Problem(
        variables={"a": (0, 1)},
        outputs=["y"],
        minimize="(y - k)^2 + a",
        subject_to=["y >= 0.1"],
        constants={"k": 2.0},
        noise=0,
    )
    text = 'outputs = ["y"]\nminimize = "(y - k)^2 + a"\nsubject_to = ["y >= 0.1"]\nnoise = 0\n'
    found = stated(tmp_path, f"{text}[variables]\na = [0, 1]\n[constants]\nk = 2").problem
    assert found.statement() == given.statement()


def test_the_name_of_the_file_is_the_name_of_the_study(tmp_path: Path) -> None:
    assert stated(tmp_path, f'maximize = "y"\n{LEAST}', "week 12.toml").name == "week 12"


def test_what_init_writes_works(tmp_path: Path) -> None:
    found = stated(tmp_path, TEMPLATE.format(file="problem.toml"))
    assert found.problem.k == 2
    assert found.command is None


def test_commented_lines_of_what_init_writes_work_too(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("c\n1\n2\n")
    lines = TEMPLATE.format(file="problem.toml").splitlines()
    marks = ("# catalyst", "# measured", "# [run]", "# command", "# timeout")
    text = "\n".join(line[2:] if line.startswith(marks) else line for line in lines)
    found = stated(tmp_path, text)
    assert found.problem.variables["catalyst"].log
    assert found.problem.constants["measured"] == (1.0, 2.0)
    assert found.command is not None


def test_an_fmu_is_looked_for_beside_the_file_and_only_by_those_who_need_it(tmp_path: Path) -> None:
    text = f"maximize = 'y'\n{LEAST}[run]\nfmu = 'models/kettle.fmu'\ntimeout = 30\nretries = 2\nworkers = 3\n"
    found = stated(tmp_path, text)  # the file is not there: `pied status` works all the same
    assert found.fmu is not None
    assert found.fmu.file == tmp_path.resolve() / "models" / "kettle.fmu"
    assert (found.fmu.timeout, found.fmu.retries, found.workers) == (30.0, 2, 3)
    for each in (found.fmu.check_file, lambda: found.fmu.command(found.problem)):
        with pytest.raises(StatementError, match=r"^reactor\.toml, line 7, run\.fmu: there is no file .*Copy the FMU"):
            each()


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + f'maximize = "y"\n{LEAST}'.replace("\n", "\r\n").encode())
    assert read(str(tmp_path / "a.toml")).problem.outputs == ("y",)


# ------------------------------------------------------------------------------------------------------------- vectors


def test_a_vector_of_outputs_is_fitted_to_a_column_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "measured.csv").write_text("time;c;late\n10;0,5;1\n20;0,7;2\n30;0,2;\n")
    text = (
        'minimize = "sum((c - observed)^2) + (d[1] - sum(late))^2"\n[variables]\na = [0, 1]\nb = [0, 1]\n[outputs]\n'
        'c = { length = 3, range = [0, inf], inputs = ["a"], noise = 0 }\nd = { length = 1 }\n[constants]\n'
        'observed = { file = "data/measured.csv", column = "c" }\nlate = { file = "data/measured.csv", column = "late" }'  # noqa: E501
    )
    problem = stated(tmp_path, text).problem
    assert problem.outputs == ("c[1]", "c[2]", "c[3]", "d[1]")
    assert problem.constants["late"] == (1.0, 2.0)
    assert problem.active.tolist() == [[True, False]] * 3 + [[True, True]]
    assert problem.noise == (0, 0, 0, None)
    Y = np.array([[[0.5, 0.7, 0.3, 2.0]]])
    value = problem.g(np.zeros((1, 2)), Y)[0]
    assert problem.user_value(value.item()) == pytest.approx(0.01 + 1.0)


def test_lengths_of_vectors_are_compared_with_those_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("c\n1\n2\n")
    text = (
        'minimize = "sum((c - observed)^2)"\n[variables]\na = [0, 1]\n[outputs]\nc = { length = 24 }\n'
        '[constants]\nobserved = { file = "m.csv", column = "c" }'
    )
    with pytest.raises(FormulaError, match=r"line 1, minimize: Vectors .* \('c' has 24, 'observed' has 2\)"):
        stated(tmp_path, text)


# ---------------------------------------------------------------------------------------------------------- candidates


@pytest.mark.parametrize("variables", ["", 'variables = ["grade", "age"]\n', "boxes"])
def test_a_table_of_candidates_is_what_can_be_chosen(tmp_path: Path, variables: str) -> None:
    (tmp_path / "recipes.csv").write_text("grade,age\n0.2,1\n0.5,5\n0.8,9\n")
    top = f'candidates = "recipes.csv"\nmaximize = "y - age"\noutputs = ["y"]\n{variables}'
    boxes = "[variables]\ngrade = { lo = 0, hi = 1 }\nage = { lo = 0.5, hi = 10, log = true }"
    problem = stated(tmp_path, top if variables != "boxes" else top.removesuffix("boxes") + boxes).problem
    assert problem.candidates is not None
    assert len(problem.candidates) == 3
    assert list(problem.variables) == ["grade", "age"]
    assert problem.variables["age"].log == (variables == "boxes")


def test_a_column_of_candidates_that_is_no_number_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "recipes.csv").write_text("name,age\n3,1\nblue,5\n")
    with pytest.raises(
        StatementError, match=r"line 1, candidates: recipes\.csv, line 3, 'name': 'blue' is not a number"
    ):
        stated(tmp_path, 'candidates = "recipes.csv"\noutputs = ["y"]\nmaximize = "y"')


# ------------------------------------------------------------------------------------------------------------ mistakes

# text, and what is said about it; {} is replaced by the least statement
MISTAKES: list[tuple[str, str]] = [
    ('maximize = "y', r"reactor\.toml is not valid TOML: Unterminated string"),
    ("maximize = y", r"reactor\.toml is not valid TOML: Invalid value \(at line 1, column 12\); write texts in quotes"),
    ("", r"reactor\.toml: \[variables\] is missing: name what can be set"),
    ("[variables]\na = [0, 1]", r"reactor\.toml: \[outputs\] is missing: name what is measured"),
    ("{}", r"reactor\.toml: the goal is missing: write maximize = "),
    ('maximise = "y"\n{}', r"line 1, maximise: there is no key 'maximise' here\. Did you mean 'maximize'\?"),
    ('maximize = "z"\n{}', r"line 1, maximize: There is no 'z'\..*\(character 1\) In: z"),
    ('maximize = "y +"\n{}', r"line 1, maximize: Something is missing here\. \(character 4\) In: y \+"),
    ('maximize = "y"\nminimize = "y"\n{}', "objective is given twice"),
    ("maximize = 3\n{}", r"line 1, maximize: a formula in quotes is expected, got 3"),
    ('{}maximize = "y"', r"line 5, outputs\.maximize: 'maximize' belongs to the top of the file, above the first"),
    ('{}[subject_to]\nmaximize = "y"', r"line 6, subject_to\.maximize: 'maximize' belongs to the top of the file"),
    ('{}[constants]\nmaximize = "y"', r"constants\.maximize: 'maximize' belongs to the top"),
    ('maximize = "y"\n{}[study]\nsolver = "cuqb"', r"line 7, study\.solver: 'solver' belongs to the top"),
    ('{}[subject_to]\nlimit = "y"', r"line 6, subject_to\.limit: 'y' is a constraint and needs a comparison"),
    ('{}[subject_to]\nlimit = {{ tolerance = 1 }}', r"subject_to\.limit: the formula is missing"),
    ('{}[subject_to]\nlimit = 3', r"subject_to\.limit: a formula with a comparison, \"a <= b\" in quotes is expected"),
    ('{}[subject_to]\n"a b" = {{ formla = "y <= 1" }}', r'line 6, subject_to\."a b"\.formla: .*Did you mean \'form'),
    ("subject_to = 3\n{}", r"line 1, subject_to: this should be a heading, \[subject_to\]"),
    ("variables = 3\noutputs = ['y']\nmaximize = 'y'", r"line 1, variables: this should be a heading"),
    ("outputs = []\nmaximize = 'y'\n[variables]\na = [0, 1]", r"line 1, outputs: a list of names is expected"),
    ("outputs = [3]\nmaximize = 'y'\n[variables]\na = [0, 1]", r"outputs: a name in quotes is expected, got 3"),
    ("maximize = 'y'\n[variables]\na = [1, 0]\n[outputs]\ny={{}}", r"line 3, variables\.a: The lower bound 1 must be"),
    ("maximize = 'y'\n[variables]\na = 3\n[outputs]\ny={{}}", r"variables\.a: a variable has two bounds, \[70, 100\]"),
    ("maximize = 'y'\n[variables]\na = ['0', 1]\n[outputs]\ny={{}}", r"variables\.a\.lo: a number is expected, got"),
    ("maximize = 'y'\n[variables]\na = {{lo=0}}\n[outputs]\ny={{}}", r"variables\.a: the bound 'hi' is missing"),
    ("maximize = 'y'\n[variables]\na = {{lo=0,high=1}}\n[outputs]\ny={{}}", r"no key 'high' here\. Did you mean 'hi'"),
    ("maximize = 'y'\n[variables.a]\nlo=0\nhi=1\nlog=true\n[outputs]\ny={{}}", r"line 2, variables\.a: A logarithmic"),
    ("maximize = 'y'\n[variables.a]\nlo=1\nhi=2\nlog='yes'\n[outputs]\ny={{}}", r"log is true or false"),
    ("maximize = 'y'\n[variables]\na = [0, inf]\n[outputs]\ny={{}}", r"variables\.a\.hi: a finite number is expected"),
    ("maximize = 'y'\n{}y2 = 3", r"outputs\.y2: an output is described by \{ \}"),
    ("maximize = 'y'\n{}z = {{ rang = [0, 1] }}", r"outputs\.z\.rang: .*Did you mean 'range'"),
    ("maximize = 'y'\n{}z = {{ range = [1, 0] }}", r"outputs\.z\.range: the lower end 1 must be below the upper end 0"),
    ("maximize = 'y'\n{}z = {{ range = 1 }}", r"outputs\.z\.range: a range has two ends"),
    ("maximize = 'y'\n{}z = {{ noise = -1 }}", r"reactor\.toml: noise of 'z' must not be negative"),
    ("maximize = 'y'\n{}z = {{ noise = 'low' }}", r"outputs\.z\.noise: a number is expected, got 'low'"),
    ("maximize = 'y'\n{}z = {{ inputs = ['b'] }}", r"inputs names 'b', which is not a variable"),
    ("maximize = 'y'\n{}z = {{ length = 0 }}", r"outputs\.z\.length: a whole number from 1 to 1000 is expected"),
    ("maximize = 'y'\n{}z = {{ length = 1000000000 }}", r"outputs\.z\.length: a whole number from 1 to 1000"),
    ("maximize = 'y'\n{}z = {{ length = 2.5 }}", r"outputs\.z\.length: a whole number is expected, got 2\.5"),
    ("maximize = 'y'\n{}a = {{}}", r"'a' is both a variable and an output"),
    ("maximize = 'y'\n{}[constants]\nk = 'x'", r"constants\.k: a number is expected, got 'x'"),
    ("maximize = 'y'\n{}[constants]\nk = true", r"constants\.k: a number is expected, got True"),
    ("maximize = 'y'\n{}[constants]\nk = []", r"constants\.k: a constant is empty"),
    ("maximize = 'y'\n{}[constants]\nk = [1, 'b']", r"constants\.k: a number is expected, got 'b'"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = 'no.csv' }}", r"constants\.k: 'column' is missing"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = 'no.csv', column = 'c' }}", r"constants\.k\.file: there is no tab"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = 'm.csv', column = 'C' }}", r"m\.csv has no column 'C'\. Known: 'c'"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = '../m.csv', column = 'c' }}", r"lies outside of the folder of rea"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = '/etc/passwd', column = 'c' }}", r"'/etc/passwd' lies outside of"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = 'away.csv', column = 'c' }}", r"'away\.csv' lies outside of"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = \"a\\u0000b\", column = 'c' }}", r"is not a file name"),
    ("maximize = 'y'\n{}[constants]\nk = {{ file = '.', column = 'c' }}", r"is not a plain file"),
    ("solver = 'cuqd'\nmaximize = 'y'\n{}", r"line 1, solver: unknown solver 'cuqd'\. Did you mean 'cuqb'\?"),
    ("maximize = 'y'\n{}[solver]\nlevl = 0.9", r"line 6, solver: solver 'cuqb' has no setting 'levl'\. Did you mean"),
    ("maximize = 'y'\n{}[solver]\nbeliever = {{}}", r"solver\.believer: a setting in a file is one number"),
    ("maximize = 'y'\n{}[study]\nsed = 3", r"study\.sed: there is no key 'sed' here\. Did you mean 'seed'\?"),
    ("maximize = 'y'\n{}[study]\nseed = 1.5", r"study\.seed: a whole number is expected, got 1\.5"),
    ("maximize = 'y'\n{}[study]\ninitial = 1", r"study\.initial: a whole number of at least 2 is expected"),
    ("maximize = 'y'\n{}[run]\ncommand = 3", r"run\.command: a command in quotes is expected"),
    ("maximize = 'y'\n{}[run]\ncommand = 'sim {{b}}'", r"line 7, run\.command: the command speaks of \{b\}\. Know"),
    ("maximize = 'y'\n{}[run]\ncommand = \"sim 'a\"", r"run\.command: the command .* cannot be split into words"),
    ("maximize = 'y'\n{}[run]\ncommand = 'sim'\ntimeout = 0", r"run\.command: timeout is a number of seconds above 0"),
    ("maximize = 'y'\n{}[run]\nfmu = 3", r"line 7, run\.fmu: the name of an FMU in quotes is expected, got 3"),
    ("maximize = 'y'\n{}[run]\nfmu = \"a\\u0000b\"", r"run\.fmu: .* is not a file name"),
    ("maximize = 'y'\n{}[run]\nfmu = 'm.fmu'\ncommand = 'sim'", r"run\.fmu: one thing evaluates a point: keep"),
    ("maximize = 'y'\n{}[run]\nfmu = 'm.fmu'\ntimeout = 0", r"run\.timeout: a number of seconds above 0"),
    ("maximize = 'y'\n{}[run]\nworkers = 0", r"run\.workers: a whole number of at least 1"),
    ("a = " + "[" * 5000 + "]" * 5000, r"nested too deeply|is not valid TOML"),
    ('candidates = "no.csv"\noutputs = ["y"]\nmaximize = "y"', r"line 1, candidates: there is no table"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_a_file_gets_one_sentence_with_file_place_and_remedy(
    tmp_path: Path, text: str, message: str
) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "m.csv").write_text("c\n1\n2\n")
    (tmp_path / "m.csv").write_text("c\n1\n2\n")
    (folder / "away.csv").symlink_to(tmp_path / "m.csv")
    with pytest.raises(StatementError, match=message) as caught:
        stated(folder, text.replace("{}", LEAST) if "{{" not in text else text.format(LEAST))
    assert str(caught.value).startswith("reactor.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.toml", "there is no problem file 'nothing.toml'"),
        ("plant.py", r"name the problem in plant\.py too: plant\.py:problem"),
        ("plant.py:problem", "there is no Python file 'plant.py'"),
        ("reactor", r"'reactor' is neither a problem file \(reactor\.toml\) nor a Python problem"),
        ("a\0b.toml", "contains a NUL character"),
    ],
)
def test_what_names_no_problem_is_refused(name: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        read(name)


def test_files_that_are_no_text_or_too_large_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"maximize = '\xff\xfe'")
    with pytest.raises(StatementError, match="is not UTF-8 text"):
        read(str(tmp_path / "a.toml"))
    (tmp_path / "b.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(StatementError, match="has more than 1000000 bytes"):
        read(str(tmp_path / "b.toml"))
    (tmp_path / "c.toml").mkdir()
    with pytest.raises(StatementError, match="is not a plain file"):
        read(str(tmp_path / "c.toml"))


def test_a_vector_has_at_most_a_thousand_parts() -> None:
    assert LONGEST == 1000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TOP_WORDS = ("variables", "outputs", "maximize", "subject_to", "constants", "inputs", "noise", "solver", "study", "run")


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(TOP_WORDS), VALUES, st.binary(max_size=30))
def test_random_files_raise_nothing_but_our_errors(tmp_path: Path, word: str, value: object, noise: bytes) -> None:
    texts = [
        f"{LEAST}\n".encode() + noise,
        f"{word} = {_toml(value)}\nmaximize = 'y'\n{LEAST}".encode("utf-8", "replace"),
    ]
    for text in texts:
        (tmp_path / "random.toml").write_bytes(text)
        with contextlib.suppress(PiedError):
            read(str(tmp_path / "random.toml"))


def _toml(value: object) -> str:
    """Write a value as TOML would have it, roughly: what is not valid TOML is refused as such."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


# -------------------------------------------------------------------------------------------------------------- Python

PLANT = """
import pied
from neighbour import LIMIT

def reactor(x):
    return {"y": x.a * LIMIT}

problem = pied.Problem({"a": (0, 1)}, ["y"], blackbox=reactor, maximize="y")

def made():
    return problem

def broken():
    raise RuntimeError("no licence")

number = 3
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A Python file with a name of its own, for each test, and its neighbour."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    name = re.sub(r"\W", "_", request.node.name)
    (tmp_path / "neighbour.py").write_text("LIMIT = 2.0\n")
    (tmp_path / f"{name}.py").write_text(PLANT)
    return str(tmp_path / f"{name}.py")


@pytest.mark.parametrize("name", ["problem", "made"])
def test_a_python_problem_is_an_object_or_a_function_that_makes_it(plant: str, name: str) -> None:
    found = read(f"{plant}:{name}")
    assert found.problem.evaluate([0.5]).tolist() == [1.0]
    assert (found.name, found.store) == (name, Path(plant).with_suffix(".db"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("problme", r"has no 'problme'\. Did you mean 'problem'\?"),
        ("number", "'number' should be a pied.Problem or a function that returns one"),
        ("reactor", "'reactor' raised TypeError"),
        ("broken", "'broken' raised RuntimeError: no licence"),
    ],
)
def test_a_python_file_without_the_problem_is_refused(plant: str, name: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        read(f"{plant}:{name}")


def test_a_python_file_that_raises_says_what(tmp_path: Path) -> None:
    (tmp_path / "plant_that_raises.py").write_text("import nothing_of_this_name")
    with pytest.raises(StatementError, match=r"raised ModuleNotFoundError: No module named 'nothing_of_this_name'"):
        read(f"{tmp_path / 'plant_that_raises.py'}:problem")


def test_a_python_file_must_not_hide_a_module_in_use(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("problem = 3")
    with pytest.raises(StatementError, match=r"another Python module called 'json': give json\.py another name"):
        read(f"{tmp_path / 'json.py'}:problem")


def test_every_word_of_a_statement_is_described() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()
    section = page.split("\n## Files\n")[1].split("\n## ")[0]
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section))))
    assert {*TOP, *STUDY, *RUN, "lo", "hi", "unit", "log", "range", "length", "file", "column", "formula"} <= words
    assert {"integer", "levels", "choices", "properties", "parts", "total", "bounds"} <= words
