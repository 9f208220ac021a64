# %% [markdown]
# # Calibration of a simulator
#
# Four parameters of a spill into a river are found from 24 concentrations. The misfit is a sum of squares and known;
# only the simulator is costly. So `pied` models the 24 outputs, not the misfit. Cells begin with `# %%`.

# %%
import os

import pied
from pied import suite

BUDGET = int(os.environ.get("PIED_EXAMPLE_BUDGET", "25"))
benchmark = suite.get("environmental")
problem = benchmark.problem
print(problem)

# %%
result = pied.solve(problem, budget=BUDGET, seed=0)
print(result.x, result.value)
known = benchmark.known
print("known optimum:", None if known is None else (known.x, known.value))
