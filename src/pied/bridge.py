"""The connection to BoTorch: its models as beliefs, our bounds as one of its acquisition functions.

BoTorch is imported when a name of this module is first used. It works on tensors; everything else here on arrays.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.errors import MissingExtra, NumericalError, SettingError
from pied.rng import Stream
from pied.shapes import Float64

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra("the bridge to BoTorch", "BoTorch", "botorch") from error

if TYPE_CHECKING:
    UpperQuantileBound: Any

CORRELATION_POINTS = 16  # points at which outputs are tested for correlation
SMALLEST_CORRELATION = 1e-9  # a smaller correlation is rounding error, and changes no bound
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # of the mean variance; the first one that makes it factorize is used


@dataclass(frozen=True, eq=False)
class ModelBelief:
    """A BoTorch or GPyTorch model as a belief about h: its moments at single points.

    Example: `docs/recipes.md`.
    """

    model: Any
    """A fitted model over the unit cube, with outputs in natural units."""
    is_correlated: bool
    """Whether outputs are correlated; the second moment is then a Cholesky factor."""

    @property
    def is_warped(self) -> bool:
        """Outputs are modelled in natural units."""
        return False

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the outputs unchanged."""
        return W

    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return ones."""
        return np.ones_like(Y)

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]]:
        """Return the mean, and standard deviations `b m` or Cholesky factors `b m m`."""
        with torch.no_grad():
            mean, deviation = self._moments(torch.tensor(U))
        return mean.numpy(), deviation.numpy()

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[
        Float64[ndarray, "b m"], Float64[ndarray, "b *m"], Float64[ndarray, "b m d"], Float64[ndarray, "b *m d"]
    ]:
        """Return the moments and their derivatives with respect to the point, by automatic differentiation."""
        with torch.enable_grad():
            leaf = torch.tensor(U, requires_grad=True)
            mean, deviation = self._moments(leaf)
            slopes = [_slopes(each, leaf) for each in (mean, deviation)]
        return mean.detach().numpy(), deviation.detach().numpy(), slopes[0].numpy(), slopes[1].numpy()

    def _moments(self, U: Tensor) -> tuple[Tensor, Tensor]:
        mean, covariance = _normal_at(self.model, U)
        if self.is_correlated:
            return mean, _cholesky(covariance)
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        return mean, variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


def belief(model: Any) -> ModelBelief:
    """Use a BoTorch or GPyTorch model as the belief about h.

    Correlated outputs (the paper's Remark 1), for instance of a `KroneckerMultiTaskGP`, keep their correlation; those
    of a `SingleTaskGP` or a `ModelListGP` are independent. Correlation is detected at a few points.

    Example: `docs/recipes.md`.

    Args:
        model: A fitted model over the unit cube, with one output per output of the problem, in the same order and in
            natural units. Its posterior must be normal, so only linear transforms of the outputs are allowed.
    """
    need_botorch("the bridge to its models")
    if isinstance(model, torch.nn.Module):
        model.eval()
        if not hasattr(model, "posterior"):
            getattr(model, "likelihood", model).eval()
    d = _inputs(model)
    if len(getattr(model, "batch_shape", ())):
        raise SettingError(f"a belief needs a single model, this {type(model).__name__} is a batch of them")
    with torch.no_grad():
        _, covariance = _normal_at(model, torch.from_numpy(Stream(0).at("bridge").sobol(CORRELATION_POINTS, d)))
    deviation = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0).sqrt()
    products = deviation[:, :, None] * deviation[:, None, :]
    off = covariance - torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
    return ModelBelief(model, bool((off.abs() > SMALLEST_CORRELATION * products).any()))


def _inputs(model: Any) -> int:
    """Return the number of inputs, from the points that the model was trained on."""
    inputs = getattr(model, "train_inputs", None)
    while isinstance(inputs, list | tuple) and inputs:
        inputs = inputs[0]
    if not isinstance(inputs, Tensor):
        raise SettingError(f"a belief needs a model trained on points of the unit cube, got {type(model).__name__}")
    return inputs.shape[-1]


def _normal_at(model: Any, U: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean `b m` and covariance `b m m` of the outputs at each point."""
    X = U.to(next(model.parameters(), U))[:, None, :]  # each point is its own batch, so nothing is joint over points
    posterior = _joint_normal(model, X)
    if not hasattr(posterior, "covariance_matrix"):
        raise SettingError(
            f"a belief must be normal, the posterior of this {type(model).__name__} is not: "
            "leave out transforms of its outputs other than linear ones"
        )
    mean = posterior.mean.reshape(len(U), -1)
    return mean.to(U), posterior.covariance_matrix.reshape(len(U), mean.shape[1], mean.shape[1]).to(U)


def _joint_normal(model: Any, X: Tensor) -> Any:
    """Return the joint distribution of the outputs at each point.

    The posterior of a `KroneckerMultiTaskGP` gives variances but no correlation, so the model itself is called,
    between the transforms that its posterior would apply.
    """
    from botorch.models import KroneckerMultiTaskGP
    from botorch.posteriors import GPyTorchPosterior

    if not hasattr(model, "posterior"):
        return model(X)
    if not isinstance(model, KroneckerMultiTaskGP):
        return getattr(model.posterior(X), "distribution", None)
    posterior = GPyTorchPosterior(model(model.transform_inputs(X)))
    if hasattr(model, "outcome_transform"):
        posterior = model.outcome_transform.untransform_posterior(posterior, X=X)
    return getattr(posterior, "distribution", None)


def _cholesky(covariance: Float64[Tensor, "b m m"]) -> Float64[Tensor, "b m m"]:
    """Factorize the covariances of single points, which are singular up to rounding near told points."""
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    size = covariance.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(covariance.dtype).tiny)
    for jitter in JITTERS:
        factor, failed = torch.linalg.cholesky_ex(covariance + jitter * size[:, None, None] * eye)
        if not bool(failed.any()):
            return factor
    return torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0).sqrt())


def _slopes(values: Float64[Tensor, "b *m"], U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b *m d"]:
    """Differentiate the values at each point with respect to that point, one entry at a time."""
    flat = values.reshape(len(U), -1)
    columns = [
        torch.autograd.grad(flat[:, i].sum(), U, retain_graph=True, allow_unused=True, materialize_grads=True)[0]
        for i in range(flat.shape[1])
    ]
    return torch.stack(columns, 1).reshape(*values.shape, U.shape[1])


class _Bounds(torch.autograd.Function):
    """Quantiles of every function, with the slopes that `Composite` computes."""

    @staticmethod
    def forward(ctx: Any, U: Tensor, composite: Composite, levels: Sequence[float]) -> Tensor:
        f, slopes = composite.values_and_slopes(U.detach().cpu().numpy(), levels)
        ctx.save_for_backward(torch.from_numpy(slopes).to(U.device))
        return torch.from_numpy(f).to(U.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return torch.einsum("bk,bkd->bd", grads[0], slopes), None, None


@cache
def _acquisition() -> type:
    """Define the acquisition class, whose base class needs BoTorch."""
    need_botorch("the bridge to its models")
    from botorch.acquisition import AcquisitionFunction

    class UpperQuantileBound(AcquisitionFunction):  # type: ignore[misc]
        """Upper quantile bound of the objective over the unit cube, one point at a time (q = 1), to be maximized.

        Constraints enter as an exact penalty on their own upper bounds, or, with `penalty=None`, as callables for
        `optimize_acqf(nonlinear_inequality_constraints=acquisition.constraints())`.
        """

        def __init__(self, composite: Composite, level: float = 0.95, *, penalty: float | None = None) -> None:
            """Take the bounds of a composite.

            Args:
                composite: The belief about g(x, h(x)).
                level: Probability below the upper bound; the paper's 0.95.
                penalty: Weight of the violated constraints, in units of the objective per unit of each constraint.
            """
            super().__init__(model=composite.belief)
            self.composite = composite
            self.level = level
            self.penalty = penalty

        def bounds(self, X: Tensor) -> Tensor:
            """Return the upper bounds of all functions, objective first: `... 1 d` to `... k`."""
            if X.shape[-2] != 1:
                raise SettingError(f"UpperQuantileBound is for one point at a time (q = 1), got q = {X.shape[-2]}")
            U = X.reshape(-1, X.shape[-1]).to(torch.float64)
            levels = [self.level] * self.composite.problem.k
            if U.requires_grad and torch.is_grad_enabled():
                f = _Bounds.apply(U, self.composite, levels)
            else:
                f = torch.from_numpy(self.composite.values(U.detach().cpu().numpy(), levels))
            return f.reshape(*X.shape[:-2], -1).to(X)

        def forward(self, X: Tensor) -> Tensor:
            """Return the upper bound of the objective, minus the penalty if one is set."""
            f = self.bounds(X)
            if self.penalty is None:
                return f[..., 0]
            return f[..., 0] - self.penalty * (-f[..., 1:]).clamp_min(0.0).sum(-1)

        def constraints(self) -> list[tuple[Callable[[Tensor], Tensor], bool]]:
            """Return the constraints' upper bounds in the form of `optimize_acqf`: met when >= 0, at one point."""

            def bound_of(i: int) -> Callable[[Tensor], Tensor]:
                return lambda x: self.bounds(x.reshape(1, 1, -1))[0, i]

            return [(bound_of(i), True) for i in range(1, self.composite.problem.k)]

    return UpperQuantileBound


def __getattr__(name: str) -> Any:
    """Define `UpperQuantileBound` on first use."""
    if name == "UpperQuantileBound":
        return _acquisition()
    raise AttributeError(f"module 'pied.bridge' has no attribute '{name}'")


def fitted(U: Float64[ndarray, "N d"], y: Float64[ndarray, "N 1"], variance: float | None) -> Any:
    """Fit BoTorch's default model of one output, with the variance of the noise if it is known."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    targets = torch.tensor(y)
    model = SingleTaskGP(torch.tensor(U), targets, None if variance is None else torch.full_like(targets, variance))
    with _breakdowns():
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def drawn(model: Any, U: Float64[ndarray, "c d"]) -> Float64[ndarray, "c"]:
    """Draw a function from a model's posterior, jointly at all points."""
    from gpytorch.settings import max_cholesky_size

    with torch.no_grad(), max_cholesky_size(math.inf), _breakdowns():
        return model.posterior(torch.tensor(U)).sample()[0, :, 0].numpy()


def length_scales(model: Any) -> Float64[ndarray, "l"] | None:
    """Return the length scales of a model's kernel, one or one per input; None if it has none."""
    kernel = getattr(model, "covar_module", None)
    lengths = getattr(getattr(kernel, "base_kernel", kernel), "lengthscale", None)
    return None if lengths is None else lengths.detach().reshape(-1).to(torch.float64).cpu().numpy()


@contextmanager
def _breakdowns() -> Iterator[None]:
    """Raise what BoTorch and GPyTorch say of numbers they cannot compute with as our own error."""
    from botorch.exceptions.errors import ModelFittingError, OptimizationGradientError
    from linear_operator.utils.errors import NanError, NotPSDError

    singular: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
    try:
        yield
    except (ModelFittingError, OptimizationGradientError, NanError, NotPSDError, singular) as error:
        raise NumericalError(str(error)) from error


def need_botorch(purpose: str) -> None:
    """Raise an error that says what to install if BoTorch is missing."""
    try:
        import botorch  # noqa: F401
    except ImportError as error:
        raise MissingExtra(purpose, "BoTorch", "botorch") from error
