"""EPANET, by wntr: head and pipe diameter of a small network, for low cost at enough pressure everywhere."""

import tempfile

import wntr

import pied


def network(head, diameter):
    net = wntr.network.WaterNetworkModel()
    net.add_reservoir("source", base_head=head)
    for name, elevation in (("a", 5.0), ("b", 12.0), ("c", 8.0)):
        net.add_junction(name, base_demand=0.01, elevation=elevation)
    for name, (start, end) in {"1": ("source", "a"), "2": ("a", "b"), "3": ("a", "c"), "4": ("b", "c")}.items():
        net.add_pipe(name, start, end, length=800.0, diameter=diameter, roughness=110)
    with tempfile.TemporaryDirectory() as folder:
        found = wntr.sim.EpanetSimulator(net).run_sim(file_prefix=f"{folder}/net")
    return {f"p_{name}": float(found.node["pressure"].loc[0, name]) for name in "abc"}


problem = pied.Problem(
    {"head": pied.Variable(30.0, 90.0, unit="m"), "diameter": pied.Variable(0.1, 0.3, unit="m")},
    [f"p_{name}" for name in "abc"],
    blackbox=network, minimize={"cost": "head + 4000*diameter^2"},
    subject_to={f"pressure {name}": f"p_{name} >= 20" for name in "abc"},
    noise=1e-3,  # m: EPANET iterates to a relative flow change of 1e-3 and writes single precision
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=20, seed=0))
