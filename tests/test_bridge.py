"""BoTorch models as beliefs, and our bounds as a BoTorch acquisition function."""

import builtins
import importlib
import sys
import warnings

import numpy as np
import pytest

import pied
from oracles import numeric_slope
from pied.bounds.composite import Composite
from pied.bounds.estimator import Estimator
from pied.errors import MissingExtra, SettingError
from pied.gp import GP
from pied.rng import Stream

pytest.importorskip("botorch")

import gpytorch
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataWarning
from botorch.models import KroneckerMultiTaskGP, ModelListGP, SingleTaskGP
from botorch.models.transforms import Log, Standardize
from botorch.optim import optimize_acqf

from pied import bridge
from pied.bridge import UpperQuantileBound

TRAIN = torch.from_numpy(Stream(0).at("train").sobol(14, 2))
FIRST = torch.sin(4 * TRAIN[:, 0]) + TRAIN[:, 1]
Y = torch.stack([FIRST, 0.9 * FIRST + 0.05 * torch.cos(5 * TRAIN[:, 1])], -1)  # two outputs that move together
POINTS = Stream(0).at("points").sobol(5, 2)
TENSORS = torch.from_numpy(POINTS)

pytestmark = pytest.mark.filterwarnings(
    "ignore::botorch.exceptions.InputDataWarning",
    "ignore::DeprecationWarning",
    "ignore:Optimization failed:RuntimeWarning",  # the penalty has kinks, which L-BFGS-B does not like
)


def single() -> SingleTaskGP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)
        model = SingleTaskGP(TRAIN, Y, train_Yvar=torch.full_like(Y, 1e-4))
    model.covar_module.lengthscale = 0.4
    return model


def several() -> ModelListGP:
    models = [SingleTaskGP(TRAIN, Y[:, j : j + 1], train_Yvar=torch.full((14, 1), 1e-4).double()) for j in range(2)]
    for model in models:
        model.covar_module.lengthscale = 0.4
    return ModelListGP(*models)


def kronecker(**words) -> KroneckerMultiTaskGP:
    """Outputs with a correlation of 0.97 a priori."""
    model = KroneckerMultiTaskGP(TRAIN, Y, **words)
    with torch.no_grad():
        model.covar_module.data_covar_module.lengthscale = 0.4
        model.covar_module.task_covar_module.covar_factor.copy_(torch.tensor([[1.0], [1.0]]).double().expand(2, 2))
        model.covar_module.task_covar_module.var = torch.tensor([0.05, 0.05]).double()
        model.likelihood.noise = 1e-3
    return model


class Plain(gpytorch.models.ExactGP):
    """A model of GPyTorch alone."""

    def __init__(self):
        super().__init__(TRAIN, FIRST, gpytorch.likelihoods.GaussianLikelihood().double())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.double()
        self.covar_module.base_kernel.lengthscale = 0.4

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def problem(maximize, m=2, **words) -> pied.Problem:
    return pied.Problem({"p": (0.0, 2.0), "q": (0.0, 1.0)}, ["a", "b"][:m], maximize=maximize, **words)


def difference(x, y):
    return y.a - y.b


def assert_close(ours, theirs, rtol=1e-7, atol=1e-9):
    """Compare arrays or tensors."""
    ours, theirs = (each.detach().numpy() if isinstance(each, torch.Tensor) else each for each in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


# -------------------------------------------------------------------------------------------------- models as beliefs


@pytest.mark.parametrize("make", [single, several])
def test_independent_models_give_the_moments_of_their_posterior(make):
    model = make()
    ours = bridge.belief(model)
    assert not ours.is_correlated
    assert not ours.is_warped
    mean, scale = ours.moments(POINTS)
    theirs = model.posterior(TENSORS)
    assert_close(mean, theirs.mean, rtol=1e-9, atol=1e-9)
    assert_close(scale**2, theirs.variance, rtol=1e-6, atol=1e-9)
    assert (ours.unwarp(mean) == mean).all()


def dense(model, point) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior of a Kronecker model at one point by dense linear algebra."""
    with torch.no_grad():
        tasks, kernel = (
            model.covar_module.task_covar_module.covar_matrix.to_dense(),
            model.covar_module.data_covar_module,
        )
        K = (
            torch.kron(kernel(TRAIN, TRAIN).to_dense(), tasks)
            + model.likelihood._shaped_noise_covar(TRAIN.shape).to_dense()
        )
        cross = torch.kron(kernel(point[None], TRAIN).to_dense(), tasks)
        rest = (model.train_targets - model.mean_module(TRAIN)).reshape(-1)
        mean = model.mean_module(point[None])[0] + cross @ torch.linalg.solve(K, rest)
        return mean, tasks - cross @ torch.linalg.solve(K, cross.T)


def test_correlated_models_give_a_cholesky_factor_of_their_covariance():
    model = kronecker()
    ours = bridge.belief(model)
    assert ours.is_correlated
    mean, scale = ours.moments(POINTS)
    assert scale.shape == (5, 2, 2)
    for i, point in enumerate(TENSORS):
        expected, covariance = dense(model, point)
        assert covariance[0, 1] > 0.3 * covariance[0, 0]
        assert_close(mean[i], expected, rtol=1e-8, atol=1e-8)
        assert_close(scale[i] @ scale[i].T, covariance, rtol=1e-6, atol=1e-8)


def test_linear_transforms_of_the_outputs_are_undone():
    plain, scaled = kronecker(), kronecker(outcome_transform=Standardize(2))
    shift, scale = Y.mean(0), Y.std(0)
    plain.set_train_data(targets=(Y - shift) / scale, strict=False)
    mean, factor = bridge.belief(plain).moments(POINTS)
    theirs, their_factor = bridge.belief(scaled).moments(POINTS)
    assert_close(theirs, shift + scale * torch.from_numpy(mean), rtol=1e-6, atol=1e-6)
    assert_close(their_factor, scale[:, None] * torch.from_numpy(factor), rtol=1e-5, atol=1e-7)


def test_models_of_gpytorch_alone_are_beliefs_too():
    ours = bridge.belief(Plain())
    mean, scale = ours.moments(POINTS)
    assert mean.shape == scale.shape == (5, 1)
    law = Plain().eval()(TENSORS)
    assert_close(mean[:, 0], law.mean, rtol=1e-8, atol=1e-8)
    assert_close(scale[:, 0] ** 2, law.variance, rtol=1e-6, atol=1e-8)
    assert np.isfinite(Composite(problem(lambda x, y: y.a**2, 1), ours, Stream(1)).values(POINTS, [0.95])).all()


@pytest.mark.parametrize("make", [single, several, kronecker])
def test_slopes_of_the_moments_equal_finite_differences(make):
    ours = bridge.belief(make())
    mean, scale, mean_slope, scale_slope = ours.moments_and_slopes(POINTS)
    for each, other in zip((mean, scale), ours.moments(POINTS), strict=True):
        assert_close(each, other, rtol=1e-7, atol=1e-9)
    for i, point in enumerate(POINTS):
        for part, slope in enumerate((mean_slope, scale_slope)):
            theirs = numeric_slope(lambda u, part=part: ours.moments(u[None])[part][0], point, 1e-5)
            assert_close(slope[i], theirs, rtol=1e-4, atol=1e-5)


def test_single_precision_models_answer_in_double():
    model = SingleTaskGP(TRAIN.float(), Y.float())
    mean, scale = bridge.belief(model).moments(POINTS)
    assert mean.dtype == scale.dtype == np.float64


def test_models_without_a_normal_posterior_are_refused():
    model = SingleTaskGP(TRAIN, Y.exp(), outcome_transform=Log())
    with pytest.raises(SettingError, match="must be normal"):
        bridge.belief(model)


def test_batches_of_models_are_refused():
    with pytest.raises(SettingError, match="is a batch of them"):
        bridge.belief(SingleTaskGP(TRAIN.expand(3, 14, 2), Y.expand(3, 14, 2)))


def test_what_is_no_trained_model_is_refused():
    with pytest.raises(SettingError, match="trained on points of the unit cube"):
        bridge.belief(torch.nn.Linear(2, 1))


# -------------------------------------------------------------------------------------------- bounds under correlation


@pytest.mark.slow
def test_correlation_changes_the_bound_of_a_difference_as_brute_force_says():
    model = kronecker()
    tied = bridge.belief(model)
    mean, factor = tied.moments(POINTS)

    P = problem(difference, subject_to={"product": lambda x, y: y.a * y.b})
    together = Composite(P, tied, Stream(1)).bounds(POINTS, 0.95)
    alone = Composite(P, bridge.ModelBelief(model, is_correlated=False), Stream(1)).bounds(POINTS, 0.95)
    width, free_width = (each[2] - each[0] for each in (together, alone))
    assert (width[:, 0] < 0.75 * free_width[:, 0]).all()
    Z = np.random.default_rng(0).standard_normal((10**6, 2))
    samples = mean + np.einsum("bij,lj->lbi", factor, Z)
    for column, g in enumerate((samples[..., 0] - samples[..., 1], samples[..., 0] * samples[..., 1])):
        exact = np.quantile(g, (0.05, 0.5, 0.95), axis=0)
        error = np.abs(np.stack(together)[:, :, column] - exact) / width[:, column]
        assert (error < (0.002, 0.02)[column]).all()  # closed form: error of the million; sampled: 512 points


# ------------------------------------------------------------------------------------- our bounds as their acquisition


def fitted(**words) -> Composite:
    P = problem(lambda x, y: y.a * y.b - 0.3 * x.p, **words)
    return Composite(P, GP.fit(TRAIN.numpy(), Y.numpy()), Stream(1), estimator=Estimator(samples=256))


def test_it_is_a_botorch_acquisition_with_the_values_of_the_composite():
    C = fitted()
    acquisition = UpperQuantileBound(C, 0.9)
    assert isinstance(acquisition, AcquisitionFunction)
    assert_close(acquisition(TENSORS[:, None, :]), C.values(POINTS, [0.9])[:, 0])
    X = TENSORS[:1, None, :].clone().requires_grad_()
    (slope,) = torch.autograd.grad(acquisition(X).sum(), X)
    assert_close(slope[:, 0], C.values_and_slopes(POINTS[:1], [0.9])[1][:, 0])


def test_it_takes_any_batch_shape_and_one_point_at_a_time():
    acquisition = UpperQuantileBound(fitted())
    assert acquisition(TENSORS[:4].reshape(2, 2, 1, 2)).shape == (2, 2)
    assert acquisition(TENSORS[:4].reshape(2, 2, 1, 2).float()).dtype == torch.float32
    with pytest.raises(SettingError, match="q = 1"):
        acquisition(TENSORS[None])


@pytest.mark.slow
def test_optimize_acqf_finds_the_maximum_of_a_dense_pool():
    C = fitted()
    pool = C.values(Stream(2).sobol(20_000, 2), [0.95])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        best, value = optimize_acqf(
            UpperQuantileBound(C),
            bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(),
            q=1,
            num_restarts=4,
            raw_samples=64,
        )
    assert float(value) >= float(pool.max()) - 1e-6
    assert float(value) == pytest.approx(float(pool.max()), abs=0.02)  # the spacing of the pool
    assert C.values(best.numpy(), [0.95])[0, 0] == pytest.approx(float(value), rel=1e-6, abs=1e-6)


LIMIT = {"limit": lambda x, y: 0.4 - y.a}


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [5.0, None])
def test_constraints_enter_as_a_penalty_or_as_callables(penalty):
    C = fitted(subject_to=LIMIT)
    acquisition = UpperQuantileBound(C, penalty=penalty)
    pool = C.values(Stream(2).sobol(20_000, 2), [0.95] * 2)
    best_of_pool = pool[pool[:, 1] >= 0, 0].max()
    words = {"num_restarts": 6, "raw_samples": 128}
    if penalty is None:
        feasible = Stream(3).sobol(200, 2)
        f = C.values(feasible, [0.95] * 2)
        feasible = torch.from_numpy(feasible[np.where(f[:, 1] > 0, -f[:, 0], np.inf).argsort()[:3]])
        words = {
            "num_restarts": 3,
            "batch_initial_conditions": feasible[:, None, :],
            "nonlinear_inequality_constraints": acquisition.constraints(),
            "options": {"batch_limit": 1},
        }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        best, _ = optimize_acqf(acquisition, bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), q=1, **words)
    upper = C.values(best.numpy(), [0.95] * 2)[0]
    assert float(upper[1]) >= -1e-3
    assert float(upper[0]) >= float(best_of_pool) - 0.01


def test_penalty_is_equation_40():
    C = fitted(subject_to=LIMIT)
    f = C.values(POINTS, [0.95] * 2)
    values = UpperQuantileBound(C, penalty=7.0)(TENSORS[:, None, :])
    assert_close(values, f[:, 0] - 7.0 * np.maximum(-f[:, 1], 0))
    assert (f[:, 1] < 0).any()
    ((constraint, is_for_one_point),) = UpperQuantileBound(C).constraints()
    assert is_for_one_point
    assert_close(torch.stack([constraint(point) for point in TENSORS]), f[:, 1])


# -------------------------------------------------------------------------------------------------------- not installed


def test_without_botorch_the_bridge_says_what_to_install(monkeypatch):
    ordinary = builtins.__import__

    def without(name, *rest, **words):
        if name.split(".")[0] == "botorch":
            raise ImportError(name)
        return ordinary(name, *rest, **words)

    monkeypatch.setattr(builtins, "__import__", without)
    bridge._acquisition.cache_clear()
    with pytest.raises(MissingExtra, match=r'BoTorch: pip install .*\[botorch\]"'):
        bridge.belief(object())
    with pytest.raises(MissingExtra, match="BoTorch"):
        bridge.UpperQuantileBound
    monkeypatch.undo()
    assert bridge.UpperQuantileBound.__name__ == "UpperQuantileBound"


def test_without_torch_importing_it_says_so(monkeypatch):
    monkeypatch.delitem(sys.modules, "pied.bridge")
    monkeypatch.delattr("pied.bridge")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r'BoTorch: pip install .*\[botorch\]"'):
        importlib.import_module("pied.bridge")


def test_names_that_do_not_exist_are_not_invented():
    with pytest.raises(AttributeError, match="no attribute 'LowerQuantileBound'"):
        bridge.LowerQuantileBound
    assert "pied.bridge" in sys.modules
