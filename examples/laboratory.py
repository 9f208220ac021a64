# %% [markdown]
# # A laboratory campaign with old data
#
# Eight older experiments are known. Each day, ask for the next settings, measure, tell. Cells begin with `# %%`.

# %%
import os
import random

import pied

DAYS = int(os.environ.get("PIED_EXAMPLE_BUDGET", "12"))
chance = random.Random(7)

problem = pied.Problem(
    variables={
        "temperature": pied.Variable(40, 90, unit="degC", step=1),
        "time": pied.Variable(10, 120, unit="min", step=5),
        "solvent": pied.Choice("water", "ethanol", "acetone"),
    },
    outputs={"yield": {}, "impurity": {}},
    maximize={"value": "100*yield - 0.1*time"},
    subject_to={"purity": "impurity <= 0.05"},
    ranges={"yield": (0, 1), "impurity": (0, 1)},
)


def measure(x):
    """Stand for the chemist and the chromatograph: a truth, with noise."""
    speed = {"water": 0.6, "ethanol": 1.0, "acetone": 1.2}[str(x["solvent"])]
    rate = speed * 0.012 * 2 ** ((float(x["temperature"]) - 60) / 12)
    done = 1 - 2.718 ** (-rate * float(x["time"]))
    worse = 0.0006 * speed * float(x["time"]) * 1.05 ** (float(x["temperature"]) - 70)
    return {
        "yield": min(max(done - worse + chance.gauss(0, 0.01), 0), 1),
        "impurity": min(max(worse + chance.gauss(0, 0.002), 0), 1),
    }


# %%
study = pied.Study(problem, seed=3)
for temperature in (50, 60, 70, 80):
    for solvent in ("water", "ethanol"):
        settings = {"temperature": temperature, "time": 60, "solvent": solvent}
        study.add(settings, measure(settings))
print(study)

# %%
for _ in range(DAYS):
    trial = study.ask()
    study.tell(trial, measure(trial.x))
print(study.result())

# %% [markdown]
# A reading was wrong. Correct it: the earlier value stays in the history, and the next proposal uses the new one.

# %%
study.correct(study.trials[-1].number, {"impurity": 0.031}, why="wrong calibration of the detector")
print(study.history()[-1])
