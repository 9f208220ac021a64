"""What users' functions do after they were tried: worst values and one warning, or one error in their words."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pied import Named, Problem, Study
from pied.errors import WhiteBoxError
from pied.records.trial import State
from tiny import unchecked

Function = Callable[[Named, Named], Any]
X, Y = np.full((4, 1), 0.5), np.linspace(0.1, 0.9, 20).reshape(5, 4, 1)


def _raises(x: Named, y: Named) -> Any:
    raise RuntimeError("the licence server is away")


def _in_place(x: Named, y: Named) -> Any:
    y.array[...] = 0.0
    return y.a


class Turncoat:
    """A function that behaves while it is tried, by this function."""

    def __init__(self, first: Function, later: Function) -> None:
        self.first, self.later, self.is_tried = first, later, False

    def __call__(self, x: Named, y: Named) -> Any:
        return self.later(x, y) if self.is_tried else self.first(x, y)


def turned(first: Function, later: Function, **words: Any) -> Problem:
    """A problem whose constraint 'purity' misbehaves from now on."""
    function = Turncoat(first, later)
    with unchecked():
        made = Problem({"u": (0, 1)}, ["a"], maximize="a", subject_to={"purity": function}, noise=0, **words)
    function.is_tried = True
    return made


MISBEHAVIOURS: dict[str, tuple[Function, str]] = {
    "nothing": (lambda x, y: None, "returned nothing"),
    "text": (lambda x, y: "much", "returned str"),
    "shape": (lambda x, y: np.ones(3), "returned 3 numbers"),
    "complex": (lambda x, y: 1j, "complex number"),
    "true": (lambda x, y: True, "true or false"),
    "raises": (_raises, "RuntimeError.*licence server"),
    "domain": (lambda x, y: math.sqrt(-1.0 - y.a), "ValueError"),
    "name": (lambda x, y: y.b, "no 'b' here"),
    "in place": (_in_place, "read-only"),
}


@pytest.mark.parametrize("on_arrays", [True, False])
@pytest.mark.parametrize("kind", MISBEHAVIOURS)
def test_a_called_function_that_fails_later_is_worst_there_and_warned_of_once(
    kind: str, on_arrays: bool, caplog: pytest.LogCaptureFixture
) -> None:
    later, said = MISBEHAVIOURS[kind]
    problem = turned(lambda x, y: np.sort(y.array)[..., 0] * (1.0 if on_arrays else float(x.u)), later)
    assert ("on arrays" in problem.ways["purity"]) == on_arrays
    values, back = problem.traced(X, Y, (0, 1))
    assert np.isfinite(values[0]).all()
    assert np.isnan(values[1]).all()
    assert np.isfinite(back(np.ones((2, 5, 4)))[1][0]).all()
    problem.g(X, Y)
    told = [record.getMessage() for record in caplog.records if "'purity'" in record.getMessage()]
    assert 1 <= len(told) <= 2  # on arrays and at single points it may fail by different errors
    with pytest.raises(WhiteBoxError, match=f"(?s){said}"):
        raise WhiteBoxError(" ".join(told))


def test_a_function_that_fails_at_some_points_is_fine_at_the_others() -> None:
    problem = turned(lambda x, y: math.log(y.a), lambda x, y: math.log(y.a - 0.5))
    (value,) = problem.g(X, Y, (1,))
    np.testing.assert_allclose(value, np.log(np.where(Y > 0.5, Y - 0.5, np.nan))[..., 0], equal_nan=True)


def test_values_that_are_not_finite_are_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    problem = turned(lambda x, y: float(y.a), lambda x, y: np.log(y.a - 2.0))
    assert np.isnan(problem.g(X, Y, (1,))[0]).all()
    assert all("takes float()" in each.getMessage() for each in caplog.records)  # it is called, and that is said


def test_a_traced_function_is_not_called_again() -> None:
    problem = turned(lambda x, y: y.a * x.u, _raises)
    np.testing.assert_allclose(problem.g(X, Y, (1,))[0], 0.5 * Y[..., 0])


# --------------------------------------------------------------------------------------------------------------- torch


def test_a_function_of_torch_that_misbehaves_later_gets_one_error_with_its_name() -> None:
    torch = pytest.importorskip("torch")
    later: list[tuple[Function, str]] = [
        (lambda x, y: None, "nothing: is a 'return' missing"),
        (lambda x, y: 1.0, "got float"),
        (lambda x, y: (y.a + x.u).sum(), "shape"),
        (lambda x, y: (y.a + x.u).to(torch.complex128), "complex128"),
        (lambda x, y: np.exp(y.a.detach().numpy()), "NumPy"),
        (_raises, "raised RuntimeError.*licence server"),
        (lambda x, y: y.array.mul_(2.0)[..., 0], "in place"),
    ]
    for function, said in later:
        problem = turned(lambda x, y: torch.sigmoid(y.a - 0.5) * x.u, function)
        with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
            problem.traced(X, Y, (0, 1))
        with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
            problem.g(X, Y)


def test_a_derivative_of_torch_that_fails_on_the_way_back_is_named() -> None:
    torch = pytest.importorskip("torch")

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.clone()

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            raise KeyError("nothing was saved")

    value, back = turned(lambda x, y: torch.exp(y.a), lambda x, y: Wrong.apply(y.a)).traced(X, Y, (1,))
    with pytest.raises(WhiteBoxError, match="derivative of 'purity' failed"):
        back(np.ones_like(value))


# ------------------------------------------------------------------------------------------------------------- answers


class Hostile:
    """A mapping that cannot be read."""

    def keys(self) -> list[str]:
        return ["a", "b"]

    def __getitem__(self, name: str) -> float:
        raise ZeroDivisionError("no")


def answered(answer: Callable[[float], Any]) -> list[Any]:
    """The trials of a run whose black box answers so."""
    problem = Problem({"u": (0, 1)}, ["a", "b"], blackbox=lambda x: answer(x.u), maximize="a + b", noise=0)
    with Study(problem, solver="random", seed=0) as study:
        study.run(2)
        return list(study.trials)


def test_tensors_of_every_kind_are_answers() -> None:
    torch = pytest.importorskip("torch")
    answers: list[Callable[[float], Any]] = [
        lambda u: torch.tensor([u, 1.0], dtype=torch.bfloat16),
        lambda u: torch.tensor([u, 1.0], dtype=torch.float64).to_sparse(),
        lambda u: torch.tensor([u, 1.0], dtype=torch.float64, requires_grad=True),
        lambda u: torch.tensor([1, 2]),
        lambda u: {"a": torch.tensor(u, dtype=torch.bfloat16), "b": torch.tensor([1.0]).to_sparse()},
        lambda u: [torch.tensor(u, dtype=torch.float16), torch.tensor([1.0])],
    ]
    for answer in answers:
        assert [trial.state for trial in answered(answer)] == [State.TOLD] * 2
    for answer in (lambda u: torch.zeros(2, device="meta"), lambda u: torch.tensor([u + 1j, 1.0])):
        assert [trial.state for trial in answered(answer)] == [State.FAILED] * 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda u: np.array([u + 1j, 1.0]),
        lambda u: Hostile(),
        lambda u: np.array([math.nan, math.nan], dtype=np.float16),
        lambda u: np.zeros(3),
        lambda u: [10**5000, 1.0],
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failed_trial_with_its_reason(answer: Callable[[float], Any]) -> None:
    trials = answered(answer)
    assert [trial.state for trial in trials] == [State.FAILED] * 2
    assert all(trial.reason for trial in trials)
