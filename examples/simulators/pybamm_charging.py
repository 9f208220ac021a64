"""PyBaMM: current and end voltage of charging a battery, for the most charge in an hour without a hot cell."""

import pybamm

import pied


def charging(rate, voltage):
    model = pybamm.lithium_ion.SPMe({"thermal": "lumped"})
    steps = [f"Charge at {rate:.9f} C until {voltage:.9f} V", f"Hold at {voltage:.9f} V for 1 hour or until 50 mA"]
    found = pybamm.Simulation(model, experiment=pybamm.Experiment(steps)).solve(initial_soc=0.1)
    hour = min(3600.0, found["Time [s]"].entries[-1])
    return {
        "charge": -float(found["Discharge capacity [A.h]"](hour)),
        "hottest": float(found["Volume-averaged cell temperature [K]"].entries.max()) - 273.15,
    }


problem = pied.Problem(
    {"rate": (0.3, 2.5), "voltage": pied.Variable(3.9, 4.2, unit="V")},
    {"charge": {"unit": "A.h"}, "hottest": {"unit": "degC"}},
    blackbox=charging, maximize="charge", subject_to=["hottest <= 25.3"],
    noise={"charge": 1e-4, "hottest": 1e-3},  # the solver's relative tolerance is 1e-4
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=20, seed=0))
