"""pandapower: two generators and a transformer tap in a network of nine buses, for small losses; with warm starts."""

import pandapower
import pandapower.networks

import pied


def flow(P1, P2, V1, near=None, state=None):
    net = pandapower.networks.case9()
    net.gen["p_mw"], net.gen["vm_pu"] = [P1, P2], V1
    init = "dc"
    if near is not None and near.state is not None:
        net = pandapower.from_json(str(near.state / "net.json"))  # its solution is in the network's results
        net.gen["p_mw"], net.gen["vm_pu"] = [P1, P2], V1
        init = "results"
    pandapower.runpp(net, init=init, tolerance_mva=1e-8)
    pandapower.to_json(net, str(state / "net.json")) if state is not None else None
    volts = {f"v{bus}": value for bus, value in net.res_bus.vm_pu.items()}
    return {"loss": net.res_line.pl_mw.sum(), "load": net.res_line.loading_percent.max(), **volts}


problem = pied.Problem(
    {"P1": (20.0, 250.0), "P2": (20.0, 200.0), "V1": (0.95, 1.08)},
    ["loss", "load", *(f"v{bus}" for bus in range(9))],
    blackbox=flow, minimize="loss",
    subject_to={"load": "load <= 90", **{f"low {bus}": f"v{bus} >= 0.95" for bus in range(3, 9)},
                **{f"high {bus}": f"v{bus} <= 1.05" for bus in range(3, 9)}},
    noise=1e-8,
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=25, seed=0))
