"""Every mistake in a statement gets one clear sentence that says what to do, before anything costly happens."""

import json
import math
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pied
from pied import FormulaError, PiedError, Problem, StatementError, Status, UnknownName, Variable, WhiteBoxError
from pied.errors import MissingExtra, did_you_mean


def never(x: Any) -> Any:
    raise AssertionError("the black box must not be called while a problem is stated")


def state(**words: Any) -> Problem:
    given: dict[str, Any] = {
        "variables": {"F_B": (4.0, 7.0), "values": (0.0, 1.0)},
        "outputs": ["X_A", "X_G"],
        "blackbox": never,
        "maximize": "X_A",
    }
    return Problem(**(given | words))


def test_the_words_these_mistakes_start_from_are_right() -> None:
    assert state().k == 1


STATEMENTS: list[tuple[dict[str, Any], type[PiedError], str]] = [
    # variables
    ({"variables": {}}, StatementError, r"at least one entry, \{'x1': \(0\.0, 1\.0\)\}"),
    ({"variables": [("a", 0, 1)]}, StatementError, "variables should be a dictionary"),
    ({"variables": {"a": (2.0, 1.0)}}, StatementError, "'a': The lower bound 2 must be below the upper bound 1"),
    ({"variables": {"a": (1.0, 1.0)}}, StatementError, "lower bound 1 must be below"),
    ({"variables": {"a": (math.nan, 1.0)}}, StatementError, "'a': The bound lo should be a finite number, got nan"),
    ({"variables": {"a": (0.0, math.inf)}}, StatementError, "'a': The bound hi should be a finite number, got inf"),
    ({"variables": {"a": ("0", 1.0)}}, StatementError, "bound lo should be a number, got str"),
    ({"variables": {"a": (1.0, 1.0 + 1e-12)}}, StatementError, "too narrow to search: make the variable a constant"),
    ({"variables": {"a": (1e12, 1e12 + 1)}}, StatementError, "too narrow"),
    ({"variables": {"a": (-1e308, 1e308)}}, StatementError, "too wide"),
    ({"variables": {"a": 3.0}}, StatementError, r"'a' should be \(lo, hi\), Variable\(lo, hi\), Integer.*got 3\.0"),
    ({"variables": {"a": (1.0, 2.0, 3.0)}}, StatementError, r"should be \(lo, hi\)"),
    ({"variables": {"a": {"lo": 0, "high": 1}}}, StatementError, r"should be \(lo, hi\)"),
    ({"variables": {"": (0.0, 1.0)}}, StatementError, "must be text that is not empty, got ''"),
    ({"variables": {3: (0.0, 1.0)}}, StatementError, "must be text that is not empty, got 3"),
    ({"variables": {"\u00b5": (0, 1), "\u03bc": (0, 1)}}, StatementError, "given twice: every variable needs a name"),
    # outputs
    ({"outputs": []}, StatementError, r"outputs is empty: name at least one"),
    ({"outputs": "X_A"}, StatementError, r"list of names, \['y1', 'y2'\], got 'X_A'"),
    ({"outputs": {"X_A": 1.5}}, StatementError, "should be described as"),
    ({"outputs": ["X_A", "X_A"]}, StatementError, "'X_A' is given twice: every output needs a name of its own"),
    ({"outputs": ["X_A", "F_B"]}, StatementError, "'F_B' is both a variable and an output: give one of them another"),
    ({"outputs": ["X_A", " "]}, StatementError, "must be text that is not empty"),
    # black box
    ({"blackbox": 3.0}, StatementError, "blackbox should be a function of x, got float"),
    (
        {"blackbox": lambda F, G: 0.0},
        StatementError,
        r"function of one argument x, or of variables by their names, .*\(F, G\) is neither",
    ),
    # objective and constraints
    ({"minimize": "X_G"}, StatementError, "objective is given twice: leave out maximize or minimize"),
    ({"maximize": None}, StatementError, "give maximize=, minimize= or subject_to="),
    ({"maximize": "X_B"}, FormulaError, r"There is no 'X_B'\. Did you mean 'X_[AG]'\?"),
    ({"maximize": "eval(X_A)"}, FormulaError, "There is no function 'eval'"),
    ({"maximize": "X_A <= 1"}, FormulaError, "must not compare"),
    ({"subject_to": "X_A <= 1"}, StatementError, "or a list of formulas"),
    ({"subject_to": [lambda x, y: y.X_A]}, StatementError, r"function without a name: use a dictionary"),
    ({"subject_to": ["X_A <= 1", "X_A <= 1"]}, StatementError, "same formula twice"),
    ({"subject_to": {"c": "X_A"}}, FormulaError, "needs a comparison, for instance 'X_A >= 0'"),
    ({"subject_to": {"c": "X_A == 1"}}, StatementError, "say how near is near enough"),
    ({"subject_to": {"X_A": "X_G <= 1"}}, StatementError, "Two functions are called 'X_A'"),
    ({"subject_to": {"": "X_G <= 1"}}, StatementError, "constraint must be text"),
    ({"subject_to": {"c": 3.0}}, WhiteBoxError, r"'c' should be a function of \(x, y\) or a formula, got float"),
    # optional words
    ({"constants": {"F_B": 1.0}}, StatementError, "'F_B' is both a variable or output and a constant"),
    ({"constants": {"k": "2"}}, StatementError, "Constant 'k' should be a number, got str"),
    ({"constants": {"k": [1.0, math.nan]}}, StatementError, "Constant 'k' should be a finite number"),
    ({"constants": {"k": []}}, StatementError, "'k' is an empty list"),
    ({"constants": [1.0]}, StatementError, "constants should be a dictionary"),
    ({"inputs": ["F_C"]}, UnknownName, r"inputs names 'F_C', which is not a variable\. Did you mean 'F_B'\?"),
    ({"inputs": {"X_Q": ["F_B"]}}, UnknownName, r"inputs names 'X_Q', which is not an output\. Did you mean"),
    ({"inputs": {"X_A": []}}, StatementError, "inputs of 'X_A' should be a list of variables"),
    ({"inputs": "F_B"}, StatementError, "should be a list of variables"),
    ({"noise": -0.1}, StatementError, r"noise of 'X_A' must not be negative, got -0\.1"),
    ({"noise": {"X_Q": 0.1}}, UnknownName, "noise names 'X_Q', which is not an output"),
    ({"noise": math.nan}, StatementError, "Noise of 'X_A' should be a finite number"),
    ({"noise": "small"}, StatementError, "Noise of 'X_A' should be a number, got str 'small'"),
    ({"ranges": {"X_A": (1, 0)}}, StatementError, "range of 'X_A' must have its lower end 1 below its upper end 0"),
    ({"ranges": {"X_Q": (0, 1)}}, UnknownName, "ranges names 'X_Q'"),
    ({"ranges": {"X_A": 1.0}}, StatementError, r"range of 'X_A' should be \(lo, hi\), with None for an open end"),
    ({"ranges": {"X_A": (math.nan, 1)}}, StatementError, "range of 'X_A' should be a finite number"),
    ({"ranges": [(0, 1)]}, StatementError, "ranges should be a dictionary"),
    ({"tolerance": {"c": 0.1}}, UnknownName, "tolerance names 'c', which is not a constraint"),
    ({"subject_to": {"c": "X_A <= 1"}, "tolerance": -1.0}, StatementError, "tolerance of 'c' must not be negative"),
]


@pytest.mark.parametrize(("words", "error", "message"), STATEMENTS)
def test_a_mistaken_statement_is_refused(words: dict[str, Any], error: type[PiedError], message: str) -> None:
    with pytest.raises(error, match=message):
        state(**words)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (lambda: Variable(0.0, 1.0, log=True), "logarithmic scale needs bounds on one side of 0, got 0 and 1"),
        (lambda: Variable(1.0, 0.0), "must be below"),
        (lambda: Variable(0, math.inf), "should be a finite number, got inf"),
    ],
)
def test_a_mistaken_variable_is_refused(box: Any, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        box()


def in_place(x: Any, y: Any) -> Any:
    y.array[0] = 1.0
    return y.X_A


def added_in_place(x: Any, y: Any) -> Any:
    x.F_B += 1.0
    return x.F_B * y.X_A


def scaled_in_place(x: Any, y: Any) -> Any:
    values = y.array
    values *= 2.0
    return values.sum()


FUNCTIONS: list[tuple[Any, str]] = [
    (lambda x, y: y.XA, r"uses a name that does not exist\. There is no 'XA' here\. Did you mean 'X_A'\?"),
    (lambda x, y: math.exp(y["X_B"]), "no 'X_B' here. Did you mean"),
    (lambda x, y: y.F_B, r"looks for 'F_B' in the wrong place: it is a variable, write x\['F_B'\]"),
    (lambda x, y: float(y.X_A) + x.X_A, r"it is an output, write y\['X_A'\]"),
    (lambda x, y: 2 * x.values, r"also a method of x and y: write it as an item"),
    (in_place, r"changes x or y in place .*change a copy, y\.array\.copy\(\)"),
    (added_in_place, "changes x or y in place"),
    (scaled_in_place, "changes x or y in place"),
    (lambda x, y: None, "returned nothing: is a 'return' missing"),
    (lambda x, y: [y.X_A], "returned list instead of a number"),
    (lambda x, y: y, "returned Named instead of a number"),
    (lambda x, y: "much", "returned str instead of a number"),
    (lambda x, y: y.array, r"returned 2 numbers for one point instead of one: reduce them, \.sum\(-1\)"),
    (lambda x, y: np.ones(6) * y.X_A, "returned 6 numbers for one point"),
    (lambda x, y: np.zeros(0), "returned 0 numbers for one point"),
    (lambda x, y: y.X_A > 0, r"answers true or false: return a number, .*>= 0 where it is met, limit - y\.a"),
    (lambda x, y: bool(y.X_A > 0), "answers true or false"),
    (lambda x, y: np.array([y.X_A > 0]), "answers true or false"),
    (lambda x, y: y.X_A + 1j, "returned a complex number: functions of the white box are real"),
    (lambda x, y: 1 / 0, "raised ZeroDivisionError wherever it was tried: division by zero"),
    (lambda x, y: y.X_A + "1", "raised .*TypeError wherever it was tried"),
    (lambda x, y: y.array @ np.ones(3), "raised ValueError wherever it was tried"),
    (lambda x: x.F_B, r"function of two arguments \(x, y\)"),
    (lambda x, y, z: x.F_B, r"function of two arguments \(x, y\)"),
    (3.0, r"function of \(x, y\) or a formula, got float"),
]


@pytest.mark.parametrize(("function", "message"), FUNCTIONS)
def test_a_mistaken_function_is_refused_by_name(function: Any, message: str) -> None:
    with pytest.raises(WhiteBoxError, match=f"'residual A' .*{message}") as caught:
        state(subject_to={"residual A": function})
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_a_mistaken_function_of_torch_is_refused_with_advice() -> None:
    torch = pytest.importorskip("torch")
    mistakes: list[tuple[Any, str]] = [
        (lambda x, y: torch.exp(y.array), r"got shape \(2, 6, 2\): reduce over the last axis"),
        (lambda x, y: torch.sum(y.X_A), r"got shape \(\)"),
        (lambda x, y: torch.exp(y.X_A) / y.X_A.max(), "mixes points or samples"),
        (lambda x, y: torch.exp(y.X_A).float(), "dtype float64, got float32"),
        (lambda x, y: torch.complex(y.X_A, y.X_G), "got complex128"),
        (lambda x, y: y.array @ torch.tensor([1.0, 2.0]), "mixes float32 and float64"),
        (lambda x, y: y.X_A * torch.ones(2, dtype=torch.float64), "combines tensors that do not fit"),
        (lambda x, y: torch.exp(y.X_A.detach()), "has no derivative: compute with torch functions"),
        (lambda x, y: torch.tensor(math.exp(y.X_A)), r"single numbers .*torch\.exp instead of math\.exp"),
        (lambda x, y: torch.exp(y.X_A) if y.X_A > 0 else y.X_A, r"decides on tensors .*torch\.where"),
        (lambda x, y: torch.exp(y.array.mul_(2.0))[..., 0], "in place"),
        (lambda x, y: np.exp(torch.exp(y.X_A)), "applies NumPy to tensors"),
        (lambda x, y: torch.zeros(6, dtype=torch.float64), "must work for any number of points"),
        (lambda x, y: torch.exp(y.XA), "Did you mean 'X_A'"),
    ]
    for function, message in mistakes:
        with pytest.raises(WhiteBoxError, match=f"'residual A' .*{message}") as caught:
            state(subject_to={"residual A": function})
        assert "\n" not in str(caught.value)


def test_the_cause_of_a_mistake_is_kept() -> None:
    with pytest.raises(WhiteBoxError, match="ZeroDivisionError") as caught:
        state(maximize=lambda x, y: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        ("StatementError", (PiedError, ValueError)),
        ("UnknownName", (StatementError, KeyError, AttributeError)),
        ("FormulaError", (StatementError,)),
        ("WhiteBoxError", (StatementError,)),
        ("StudyMismatch", (StatementError,)),
        ("EvaluationError", (PiedError, RuntimeError)),
        ("TellError", (PiedError, ValueError)),
        ("SettingError", (PiedError, ValueError)),
        ("NotYet", (pied.SettingError,)),
        ("SolverDone", (PiedError, RuntimeError)),
        ("StoreError", (PiedError, OSError)),
        ("Infeasible", (PiedError, RuntimeError)),
        ("MissingExtra", (PiedError, ImportError)),
    ],
)
def test_errors_form_one_tree(error: str, parents: tuple[type, ...]) -> None:
    assert all(issubclass(getattr(pied, error), parent) for parent in parents)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file://FOLDER", "dir_info": {"editable": True}}, 'pip install --editable "FOLDER[plots]"'),
        ({"url": "file://FOLDER", "dir_info": {}}, 'pip install "FOLDER[plots]"'),
        ({"url": "file:///gone", "dir_info": {}}, 'pip install ".[plots]" in the folder of its source'),
        ({"url": "https://a.org/pied.git", "vcs_info": {"vcs": "git"}},
         'pip install "pied[plots] @ git+https://a.org/pied.git"'),
        ({"url": "file:///a/pied.whl", "archive_info": {}}, 'pip install "pied[plots] @ file:///a/pied.whl"'),
        (None, 'pip install "pied[plots]"'),
    ],
)  # fmt: skip
def test_a_missing_extra_is_installed_from_where_pied_came(
    origin: dict[str, object] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    told = None if origin is None else json.dumps(origin).replace("FOLDER", tmp_path.as_posix())
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: told))
    said = str(MissingExtra("drawing", "matplotlib", "plots"))
    assert said == f"drawing needs matplotlib: {command.replace('FOLDER', str(tmp_path))}"


def test_every_status_is_a_sentence() -> None:
    assert all(status.value[0].isupper() and status.value.endswith(".") for status in Status)


def test_suggestions_name_the_closest_or_list_what_is_known() -> None:
    assert did_you_mean("X_B", ["X_A", "T_r"]) == " Did you mean 'X_A'?"
    assert did_you_mean("zzz", ["X_A", "T_r"]) == " Known: 'X_A', 'T_r'."
    assert did_you_mean("zzz", [f"name{place}" for place in range(30)]).endswith("'name11', ....")
    assert did_you_mean("zzz", []) == ""


def test_an_unknown_public_name_is_an_attribute_error_with_a_suggestion() -> None:
    with pytest.raises(AttributeError, match=r"pied has no 'Problme'\. Did you mean 'Problem'\?"):
        pied.Problme


def test_public_names_are_listed() -> None:
    assert {
        "Problem",
        "Variable",
        "Study",
        "Trial",
        "Result",
        "Status",
        "solve",
        "maximize",
        "minimize",
        "suite",
    } <= set(dir(pied))


def test_stating_a_problem_loads_no_library_that_it_does_not_use() -> None:
    code = """import sys, pied
dir(pied); pied.Status
assert "numpy" not in sys.modules
pied.Problem({"a": (0, 1)}, ["y"], maximize=lambda x, y: y.y * x.a)
assert not {"torch", "sympy", "casadi"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
