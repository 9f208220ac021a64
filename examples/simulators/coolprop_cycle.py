"""CoolProp: boiler pressure and superheat of a steam cycle, for the most work per kilogram at a dry turbine outlet."""

from CoolProp.CoolProp import PropsSI

import pied


def cycle(p_boiler, superheat):
    p, t = p_boiler * 1e5, PropsSI("T", "P", p_boiler * 1e5, "Q", 1, "Water") + superheat
    h1, s1 = (PropsSI(word, "P", 1e4, "Q", 0, "Water") for word in "HS")
    h2 = PropsSI("H", "P", p, "S", s1, "Water")
    h3, s3 = (PropsSI(word, "P", p, "T", t, "Water") for word in "HS")
    h4, quality = (PropsSI(word, "P", 1e4, "S", s3, "Water") for word in "HQ")
    return {"heat": (h3 - h2) / 1e3, "work": (h3 - h4 - h2 + h1) / 1e3, "dry": quality if quality >= 0 else 1.0}


problem = pied.Problem(
    {"p_boiler": pied.Variable(10.0, 150.0, unit="bar"), "superheat": pied.Variable(5.0, 300.0, unit="K")},
    ["heat", "work", "dry"], blackbox=cycle, maximize={"efficiency": "work / heat"},
    subject_to={"dry outlet": "dry >= 0.88"}, noise=1e-5,  # kJ/kg and kg/kg: the tolerance of CoolProp's flashes
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=25, seed=0))
