"""What users' functions do after they were tried: one error in their words, or a failed trial, no raw exception."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pied import Named, Problem, Study
from pied.errors import WhiteBoxError
from pied.records.trial import State

Function = Callable[[Named, Named], Any]


def _raises(x: Named, y: Named) -> Any:
    raise RuntimeError("the licence server is away")


def _in_place(x: Named, y: Named) -> Any:
    with torch.no_grad():
        y.array.mul_(2.0)
    return y.a + x.u


def _detached(x: Named, y: Named) -> Any:
    return (y.a + x.u).detach()


MISBEHAVIOURS: dict[str, tuple[Function, str]] = {
    "nothing": (lambda x, y: None, "nothing: is a 'return' missing"),
    "text": (lambda x, y: "much", "got str"),
    "number": (lambda x, y: 1.0, "got float"),
    "shape": (lambda x, y: (y.a + x.u).sum(), "shape"),
    "more points": (lambda x, y: torch.cat([y.a, y.a], -1), "shape"),
    "complex": (lambda x, y: (y.a + x.u).to(torch.complex128), "complex128"),
    "short": (lambda x, y: (y.a + x.u).float(), "float32"),
    "whole": (lambda x, y: (y.a + x.u).long(), "int64"),
    "numpy": (lambda x, y: np.exp(y.a.detach().numpy()), "NumPy"),
    "raises": (_raises, "raised RuntimeError.*licence server"),
    "name": (lambda x, y: y.b, "name that does not exist"),
    "in place": (_in_place, "in place"),
    "in place on a leaf": (lambda x, y: y.array.mul_(2.0)[..., 0], "in place"),
    "dict": (lambda x, y: {"g": y.a}, "got dict"),
}


class Turncoat:
    """A function that behaves while it is tried."""

    def __init__(self, later: Function) -> None:
        self.later, self.is_tried = later, False

    def __call__(self, x: Named, y: Named) -> Any:
        return self.later(x, y) if self.is_tried else (y.a - 0.5) * (y.a + x.u)


def turned(later: Function, **words: Any) -> Problem:
    """A problem whose constraint 'purity' misbehaves from now on."""
    function = Turncoat(later)
    made = Problem({"u": (0, 1)}, ["a"], maximize="a", subject_to={"purity": function}, noise=0, **words)
    function.is_tried = True
    return made


@pytest.mark.parametrize("kind", MISBEHAVIOURS)
def test_a_function_that_misbehaves_later_gets_one_error_with_its_name(kind: str) -> None:
    function, said = MISBEHAVIOURS[kind]
    problem = turned(function)
    X, Y = torch.rand(4, 1, dtype=torch.float64), torch.rand(5, 4, 1, dtype=torch.float64)
    with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
        problem.traced(X.numpy(), Y.numpy(), (0, 1))
    with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
        problem.g(X.clone(), Y.clone())


def test_a_derivative_that_is_lost_later_is_named() -> None:
    with pytest.raises(WhiteBoxError, match="'purity' has no derivative any more"):
        turned(_detached).traced(np.full((3, 1), 0.5), np.full((2, 3, 1), 0.5), (1,))


def test_a_derivative_that_fails_on_the_way_back_is_named() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a.clone()

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
            raise KeyError("nothing was saved")

    value, back = turned(lambda x, y: Wrong.apply(y.a)).traced(np.full((3, 1), 0.5), np.full((2, 3, 1), 0.5), (1,))
    with pytest.raises(WhiteBoxError, match="derivative of 'purity' failed"):
        back(np.ones_like(value))


def test_values_that_are_not_finite_are_no_mistake() -> None:
    problem = turned(lambda x, y: (y.a - 2.0).log())
    (value,) = problem.g(torch.rand(4, 1, dtype=torch.float64), torch.rand(5, 4, 1, dtype=torch.float64), which=(1,))
    assert bool(value.isnan().all())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nothing", "raises", "complex"])
def test_a_study_says_which_function_misbehaves_and_keeps_what_was_told(kind: str) -> None:
    function, said = MISBEHAVIOURS[kind]
    problem = turned(function, blackbox=lambda x: x.u)
    with Study(problem, seed=0) as study:
        for u in (0.1, 0.5, 0.9):
            study.add({"u": u}, [u])
        with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
            study.run(2)
        with pytest.raises(WhiteBoxError, match=f"(?s)'purity'.*{said}"):
            study.result("observed")
        assert sum(trial.state is State.TOLD for trial in study.trials) >= 3


ANSWERS: dict[str, Callable[[float], Any]] = {
    "bfloat16": lambda u: torch.tensor([u, 1.0], dtype=torch.bfloat16),
    "float16": lambda u: torch.tensor([u, 1.0], dtype=torch.float16),
    "sparse": lambda u: torch.tensor([u, 1.0], dtype=torch.float64).to_sparse(),
    "with a slope": lambda u: torch.tensor([u, 1.0], dtype=torch.float64, requires_grad=True),
    "whole": lambda u: torch.tensor([1, 2]),
    "by name": lambda u: {"a": torch.tensor(u, dtype=torch.bfloat16), "b": torch.tensor([1.0]).to_sparse()},
    "list": lambda u: [torch.tensor(u, dtype=torch.bfloat16), torch.tensor([1.0])],
}


class Hostile:
    """A mapping that cannot be read."""

    def keys(self) -> list[str]:
        return ["a", "b"]

    def __getitem__(self, name: str) -> float:
        raise ZeroDivisionError("no")


REFUSED: dict[str, Callable[[float], Any]] = {
    "complex": lambda u: torch.tensor([u + 1j, 1.0]),
    "nowhere": lambda u: torch.zeros(2, device="meta"),
    "hostile": lambda u: Hostile(),
    "nan": lambda u: torch.tensor([torch.nan, 1.0], dtype=torch.bfloat16),
    "long": lambda u: torch.zeros(3, dtype=torch.bfloat16),
    "huge": lambda u: [10**5000, 1.0],
}


def answered(answer: Callable[[float], Any]) -> list[Any]:
    """The trials of a run whose black box answers so."""
    problem = Problem({"u": (0, 1)}, ["a", "b"], blackbox=lambda x: answer(x.u), maximize="a + b", noise=0)
    with Study(problem, solver="random", seed=0) as study:
        study.run(2)
        return list(study.trials)


@pytest.mark.parametrize("kind", ANSWERS)
def test_tensors_of_every_kind_are_answers(kind: str) -> None:
    assert [trial.state for trial in answered(ANSWERS[kind])] == [State.TOLD] * 2


@pytest.mark.parametrize("kind", REFUSED)
def test_an_answer_that_cannot_be_read_is_a_failed_trial_with_its_reason(kind: str) -> None:
    trials = answered(REFUSED[kind])
    assert [trial.state for trial in trials] == [State.FAILED] * 2
    assert all(trial.reason for trial in trials)
