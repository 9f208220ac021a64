# %% [markdown]
# # From BoTorch to pied and back
#
# A BoTorch model is the belief of a `pied` bound, and that bound is an acquisition function that BoTorch maximizes.
# Needs `pip install "pied[botorch]"`. Cells begin with `# %%`.

# %%
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

import pied
from pied import bridge
from pied.bounds import Composite
from pied.rng import Stream

problem = pied.Problem(
    variables={"a": (0.0, 1.0), "b": (0.0, 1.0)},
    outputs=["y"],
    maximize="2*y - a",  # known: only y has to be learned
    noise=0,
)

# %% [markdown]
# A model of the output alone, over the unit cube, in natural units.

# %%
generator = torch.Generator().manual_seed(0)
U = torch.rand(12, 2, dtype=torch.float64, generator=generator)
Y = (torch.sin(3 * U[:, :1]) + U[:, 1:] * (1 - U[:, 1:])).contiguous()
model = SingleTaskGP(U, Y, outcome_transform=Standardize(1))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))

# %% [markdown]
# `pied` turns the model and the known objective into an upper bound; BoTorch searches it.

# %%
belief = bridge.belief(model)
bound = bridge.UpperQuantileBound(Composite(problem, belief, Stream(0)), level=0.95)
box = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
point, value = optimize_acqf(bound, box, q=1, num_restarts=4, raw_samples=32)
print(point, value)

# %% [markdown]
# And the other way round: what the belief says at single points.

# %%
mean, scale = belief.moments(point.detach().numpy())
print(mean, scale)
