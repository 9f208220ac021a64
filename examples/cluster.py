# %% [markdown]
# # A cluster
#
# `LocalCluster` starts workers on this machine. On Slurm use `dask_jobqueue.SLURMCluster`, on Kubernetes
# `dask_kubernetes.operator.KubeCluster`; nothing else changes. Cells begin with `# %%`.

# %%
import os

import pied
from pied import executors

BUDGET = int(os.environ.get("PIED_EXAMPLE_BUDGET", "20"))


def simulator(x):
    """A stand-in for an hour of computing."""
    return {"y": (x.a - 0.3) ** 2 + 0.5 * (x.b - 0.6) ** 2}


problem = pied.Problem(
    variables={"a": (0.0, 1.0), "b": (0.0, 1.0)},
    outputs=["y"],
    blackbox=simulator,
    minimize="y + 0.1 * a",
    noise=0,
)

# %%
if __name__ == "__main__":  # worker processes import this script
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        study = pied.Study(problem, seed=0)
        print(study.run(BUDGET, executor=executors.dask(client), workers=2))
