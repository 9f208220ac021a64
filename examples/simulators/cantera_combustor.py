"""Cantera: fuel ratio and inlet temperature of an adiabatic combustor, for the hottest gas with little NO and CO."""

import cantera

import pied


def combustor(phi, T_in):
    gas = cantera.Solution("gri30.yaml")
    gas.TP = T_in, 5e5
    gas.set_equivalence_ratio(phi, "CH4", "O2:1, N2:3.76")
    gas.equilibrate("HP", rtol=1e-10)
    return {"T": gas.T, "NO": 1e6 * gas["NO"].X[0], "CO": 1e6 * gas["CO"].X[0]}


problem = pied.Problem(
    {"phi": (0.4, 1.0), "T_in": pied.Variable(300.0, 700.0, unit="K")},
    {"T": {"unit": "K"}, "NO": {"unit": "ppm"}, "CO": {"unit": "ppm"}},
    blackbox=combustor, maximize="T", subject_to=["NO <= 2000", "CO <= 500"], noise=0,
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=20, seed=0))
