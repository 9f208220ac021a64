"""GPyTorch's own exact GP at fixed hyperparameters: a second implementation for the tests."""

import math
from collections.abc import Sequence

import gpytorch
import numpy as np
import torch
from numpy import ndarray
from torch import Tensor


class Exact(gpytorch.models.ExactGP):
    """One output with a constant mean, everything in double precision."""

    def __init__(
        self,
        U: ndarray,
        y: ndarray,
        kernel: str,
        variance: float,
        scales: Sequence[float],
        noise: float | ndarray,
        mean: float = 0.0,
    ) -> None:
        floor = gpytorch.constraints.GreaterThan(1e-12)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor).double()
        if isinstance(noise, ndarray):
            likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.from_numpy(noise))
        super().__init__(torch.from_numpy(U), torch.from_numpy(y), likelihood)
        inner = {
            "squared exponential": gpytorch.kernels.RBFKernel(ard_num_dims=U.shape[1]),
            "matern 5/2": gpytorch.kernels.MaternKernel(2.5, ard_num_dims=U.shape[1]),
            "matern 3/2": gpytorch.kernels.MaternKernel(1.5, ard_num_dims=U.shape[1]),
        }[kernel]
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(inner)
        self.double()
        self.mean_module.constant.data.fill_(mean)
        inner.lengthscale = torch.tensor(scales, dtype=torch.float64)
        self.covar_module.outputscale = torch.tensor(variance, dtype=torch.float64)
        if not isinstance(noise, ndarray):
            self.likelihood.noise = torch.tensor([noise], dtype=torch.float64)

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def minus_log_likelihood(self) -> Tensor:
        """Without the 2 pi term, not divided by the number of points."""
        self.train()
        self.likelihood.train()
        y = self.train_targets
        value = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)(self(self.train_inputs[0]), y)
        return -len(y) * value - 0.5 * len(y) * math.log(2 * math.pi)

    def slopes(self) -> ndarray:
        """Slopes of minus the log likelihood by the logarithms of the length scales and of the noise."""
        loss, kernel, noise = self.minus_log_likelihood(), self.covar_module.base_kernel, self.likelihood.noise_covar
        pairs = (kernel.raw_lengthscale, kernel.lengthscale), (noise.raw_noise, noise.noise)
        found = []
        for raw, natural in pairs:
            (by_raw,) = torch.autograd.grad(loss, raw, retain_graph=True)
            (jacobian,) = torch.autograd.grad(natural.sum(), raw)
            found.append((by_raw / jacobian * natural).flatten().detach().numpy())
        return np.concatenate(found)

    def moments(self, U: ndarray) -> tuple[ndarray, ndarray]:
        """Mean and variance of the latent process."""
        self.eval()
        self.likelihood.eval()
        with torch.no_grad(), gpytorch.settings.fast_pred_var(False):
            law = self(torch.from_numpy(U))
            return law.mean.numpy(), law.variance.numpy()
