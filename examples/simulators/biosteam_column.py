"""BioSTEAM: recovery and reflux of a column that separates ethanol from water, for little cost at a pure product."""

import biosteam

import pied


def column(recovery, reflux):
    biosteam.main_flowsheet.clear()
    biosteam.settings.set_thermo(["Water", "Ethanol"], cache=True)
    feed = biosteam.Stream("feed", Ethanol=40.0, Water=160.0, T=350.0, units="kmol/hr")
    unit = biosteam.BinaryDistillation(
        "column", ins=feed, outs=("top", "bottom"), LHK=("Ethanol", "Water"), product_specification_format="Recovery",
        Lr=recovery, Hr=0.93, k=reflux, P=101325,
    )  # fmt: skip
    unit.simulate()
    heat = sum(each.duty for each in unit.heat_utilities if each.duty > 0) / 1e6
    top = unit.outs[0]
    return {"ethanol": top.imol["Ethanol"], "purity": top.imol["Ethanol"] / top.F_mol, "heat": heat,
            "price": unit.installed_cost / 1e6}  # fmt: skip


problem = pied.Problem(
    {"recovery": (0.8, 0.99), "reflux": (1.1, 3.0)}, ["ethanol", "purity", "heat", "price"],
    blackbox=column, maximize={"profit": "0.05*ethanol - 0.02*heat - 0.3*price"}, subject_to=["purity >= 0.74"],
)  # fmt: skip  # stages are whole numbers, so the outputs have steps

if __name__ == "__main__":
    print(pied.solve(problem, budget=20, seed=0))
