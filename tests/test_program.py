"""Slopes of formulas against torch's own differentiation."""

import pytest
import torch

from pied.problem.formula import Formula, Scope
from pied.problem.named import Named
from pied.rng import Stream

SCOPE = Scope(("a", "b"), ("y", "c[1]", "c[2]", "c[3]"), {"k": 2.5, "seen": (0.2, 0.4, 0.9)})
FORMULAS = [
    "a",
    "a + b",
    "-a^2 + b^3 - a*b",
    "y*a/b - 3*y",
    "a/(b*y)/2",
    "k^a + a^k + b^a",
    "exp(a) + log(b) + log10(y) + sqrt(a) + abs(a - b) + sin(y) + cos(a) + tan(b) + tanh(y)",
    "sum((c - seen)^2)",
    "mean(c)*y + mean(a, b, y)",
    "min(a, b, y) + max(a, y) - sum(a, y, 2)",
    "max(c) - min(c - a*y)",
    "sum(c*seen*a) + sum(outputs)",
    "(a - b)*(a - b)*(y - a)*0",
    "sum(exp(-c/a)/(1 + c))",
    "y + a + b + a^2 - b*y + (a - b)",
    "c[1]*sum(c) + c[1] - sum(a*c)/2",
    "2*3^2*a + (1 - 4)/k*y",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_slopes_of_a_formula_equal_those_of_torch(text):
    formula = Formula(text, SCOPE)
    X, Y = 0.5 + Stream(1).uniform(6, 2), 0.5 + Stream(2).uniform(5, 6, 4)
    X, Y = X.requires_grad_(), Y.requires_grad_()
    value = formula(Named(SCOPE.variables, X), Named(SCOPE.outputs, Y))
    weight = Stream(3).normal(*value.shape)
    theirs = torch.autograd.grad(value, (X, Y), weight, allow_unused=True, materialize_grads=True)
    x, y = X.detach().numpy(), Y.detach().numpy()
    values = formula.tape.forward(x, y)
    torch.testing.assert_close(torch.from_numpy(values[-1]), value.detach(), rtol=1e-12, atol=1e-12)
    for ours, each in zip(formula.tape.back(values, weight.numpy(), x, y), theirs, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), each, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "zeros"), [("a*b*y", (0, 1)), ("a*a*y", (0,)), ("b*y/a", (1,))])
def test_a_factor_of_zero_has_a_slope(text, zeros):
    formula = Formula(text, SCOPE)
    X = 0.5 + Stream(1).uniform(3, 2)
    X[:, list(zeros)] = 0.0
    X, Y = X.requires_grad_(), Stream(2).uniform(2, 3, 4)
    value = formula(Named(SCOPE.variables, X), Named(SCOPE.outputs, Y))
    (theirs,) = torch.autograd.grad(value.sum(), X)
    x, y = X.detach().numpy(), Y.numpy()
    ours, _ = formula.tape.back(formula.tape.forward(x, y), torch.ones_like(value).numpy(), x, y)
    torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-12, atol=1e-12)


def test_what_is_not_finite_stays_with_its_point():
    formula = Formula("log(a)*y", SCOPE)
    x, y = (torch.tensor([[-1.0, 0.5], [0.5, 0.5]], dtype=torch.float64), Stream(2).uniform(2, 2, 4))
    values = formula.tape.forward(x.numpy(), y.numpy())
    by_x, by_y = formula.tape.back(values, torch.ones(2, 2, dtype=torch.float64).numpy(), x.numpy(), y.numpy())
    assert torch.from_numpy(values[-1])[:, 1].isfinite().all()
    assert torch.from_numpy(by_x)[1].isfinite().all()
    assert torch.from_numpy(by_y)[:, 1].isfinite().all()
