# %% [markdown]
# # The Williams-Otto reactor
#
# A reactor makes two products and a byproduct. The kinetics are a costly simulation, the profit is a formula. Open this
# file in VS Code, Spyder, PyCharm or Jupyter (with Jupytext): each `# %%` is a cell. Or run it:
# `python examples/reactor.py`.

# %%
import os

import pied
from pied.suite.applied import williams_otto

BUDGET = int(os.environ.get("PIED_EXAMPLE_BUDGET", "25"))
F_A = 1.8275  # feed of A, kg/s


def reactor(x):
    """The black box: a costly simulation of the reactor."""
    y = williams_otto(x.F_B, x.T_r)
    return {name: y[name] for name in ("X_A", "X_G", "X_P", "X_E")}


def profit(x, y):
    """The white box: products minus feeds."""
    return (1043.38 * y.X_P + 20.92 * y.X_E) * (F_A + x.F_B) - 79.23 * F_A - 118.34 * x.F_B


# %% [markdown]
# State the problem. Mistakes get one sentence each, before anything is evaluated.

# %%
problem = pied.Problem(
    variables={"F_B": pied.Variable(4.0, 7.0, unit="kg/s"), "T_r": pied.Variable(70.0, 100.0, unit="degC")},
    outputs=["X_A", "X_G", "X_P", "X_E"],
    blackbox=reactor,
    maximize=profit,
    subject_to=["X_A <= 0.12", "X_G <= 0.08"],
    noise=0,
)
print(problem)

# %%
study = pied.Study(problem, seed=0)
result = study.run(BUDGET)
print(result)

# %% [markdown]
# The limit on A is relaxed: what would that be worth? The same data answer, without a new simulation.

# %%
relaxed = study.revise(subject_to=["X_A <= 0.14", "X_G <= 0.08"])
print(relaxed.result.value, relaxed.result.x)
