"""Sixteen plants with rough outputs that were written without looking at the method.

They were written from the names of eight kinds alone, two of each: burn-out, phases, breakthrough, staged machines,
resonance, stability lobes, saturation, and outputs that vary fast in one corner. Of what the method does, three things
were made after runs on them: logits of saturating outputs (`gp.warps`), plateaus and less optimism
after explorations that broke limits by far (`solvers.moves.shrink`). Optima were found by differential
evolution from many starts and polished within each regime; none was beaten by random points and local searches.
`benchmarks/honesty.py --sets unseen` runs them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.suite import Benchmark
from pied.suite.benchmark import BlackBox, Known

Columns = Sequence[ndarray]


@dataclass(frozen=True)
class Plant:
    """A statement, its black box, and its optimum."""

    h: Callable[..., Columns]
    """Outputs at columns of settings."""
    variables: Mapping[str, tuple[float, float]]
    outputs: Sequence[str]
    maximize: str
    subject_to: Mapping[str, str]
    best: float
    """The largest feasible objective."""
    at: Sequence[float]
    """Where."""


@lru_cache(maxsize=32)
def benchmark_of(name: str) -> Benchmark:
    """Return a plant as a benchmark, with exact outputs."""
    plant = PLANTS[name]

    def h(*x: Any) -> Columns:
        return plant.h(*np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in x)))

    variables, outputs = dict(plant.variables), tuple(plant.outputs)
    whole = Problem(
        variables,
        list(outputs),
        maximize=plant.maximize,
        subject_to=dict(plant.subject_to),
        noise=dict.fromkeys(outputs, 0.0),
    ).revised(blackbox=BlackBox(h, tuple(variables), outputs))
    known = Known(plant.best, dict(zip(variables, plant.at, strict=True)), "differential evolution, polished")
    return Benchmark(name, whole, h, known, tuple(variables))


# --- Burn-out ---------------------------------------------------------------------------------------------------------


def boiler(flux: ndarray, flow: ndarray, pressure: ndarray, subcooling: ndarray) -> Columns:
    """A wall that is cooled by boiling water (flux in kW/m2, flow in kg/m2s): beyond a critical flux, by steam only."""
    saturation = 180.0 * (pressure / 10.0) ** 0.24
    quality = (1333.0 * flux / flow - 4.9 * subcooling) / (2050.0 - 7.2 * pressure)
    critical = 1500.0 * (flow / 1500.0) ** 0.35 * (1.0 - 0.85 * quality)
    critical *= np.exp(-0.5 * ((pressure - 65.0) / 70.0) ** 2)
    wet = saturation + 24.0 * np.sqrt(flux / 1000.0) * np.exp(-pressure / 90.0)
    dry = saturation + 1000.0 * flux / (2400.0 * (flow / 1500.0) ** 0.75)
    friction = 1.0 + 9.0 * np.maximum(quality, 0.0) * (0.6 + 50.0 / pressure)
    return [np.where(critical >= flux, wet, dry), 6.0 * (flow / 1500.0) ** 1.9 * friction]


def tube(coolant: ndarray, feed: ndarray, speed: ndarray) -> Columns:
    """A cooled tube in which A becomes B, and B burns: its hottest place runs away from the coolant."""
    steps = 120
    dz, adiabatic = 3.0 / steps, 190.0 * feed

    def slopes(state: ndarray) -> ndarray:
        T, A, B = state
        first = 1.35 * np.exp(13500.0 * (1.0 / 630.0 - 1.0 / T))
        second = 0.045 * np.exp(16000.0 * (1.0 / 630.0 - 1.0 / T))
        made = first / (1.0 + first / 30.0) * A / speed  # films of gas limit both
        burned = second / (1.0 + second / 20.0) * B / speed
        warming = adiabatic * (made + 2.2 * burned) - 9.5 * (T - coolant) / speed**0.6
        return np.stack([warming, -made, made - burned])

    state = np.stack([coolant, np.ones_like(coolant), np.zeros_like(coolant)])
    profile = [state[0]]
    for _ in range(steps):
        a = slopes(state)
        b = slopes(state + 0.5 * dz * a)
        c = slopes(state + 0.5 * dz * b)
        state = state + dz / 6.0 * (a + 2.0 * b + 2.0 * c + slopes(state + dz * c))
        profile.append(state[0])
    T = np.stack(profile)
    top = np.clip(T.argmax(0), 1, steps - 1)[None]
    before, at, after = (np.take_along_axis(T, top + shift, 0)[0] for shift in (-1, 0, 1))
    bend, slope = before - 2.0 * at + after, after - before  # of a parabola through the three
    is_inside = np.abs(slope) < 2.0 * np.abs(bend)
    return [at - slope**2 / (8.0 * np.where(bend < -1e-12, bend, -1e-12)) * is_inside, state[2]]


# --- Phases -----------------------------------------------------------------------------------------------------------


def drum(temperature: ndarray, pressure: ndarray, light: ndarray) -> Columns:
    """A flash drum: liquid below the bubble line, vapour above the dew line, both between them."""
    first = np.exp(10.55 - 2640.0 / (temperature + 235.0)) / pressure
    second = np.exp(10.35 - 3420.0 / (temperature + 232.0)) / pressure
    x = (1.0 - second) / (first - second)
    y = first * x
    boils, condenses = light >= x, y >= light
    share = np.where(boils, np.where(condenses, (light - x) / (y - x), 1.0), 0.0)
    top = np.where(boils, np.where(condenses, y, light), 0.0)
    superheat = np.where(boils & ~condenses, 0.04 * (temperature - 60.0), 0.0)
    return [share, top, 0.13 * (temperature - 25.0) + share * (29.0 - 5.0 * top - 0.35 * pressure) + superheat]


def crystallizer(temperature: ndarray, solute: ndarray, antisolvent: ndarray, rate: ndarray) -> Columns:
    """Two crystal forms, of which the less soluble one appears; fast cooling makes an oil."""
    one = 0.05 * np.exp(0.035 * temperature - 2.2 * antisolvent)
    other = 0.062 * np.exp(0.026 * temperature - 1.7 * antisolvent)
    is_oil = np.log(solute / one) > 2.75 - 0.55 * rate - 1.1 * antisolvent**2
    is_one = other >= one
    crystals = np.where(is_oil, 0.62 * (solute - one), np.where(is_one, solute - one, 0.93 * (solute - other)))
    pure = np.where(
        is_one, 0.25 + 0.32 * rate + 0.9 * antisolvent**2, 0.8 + 0.22 * rate + 0.5 * antisolvent
    )  # of impurities
    impurity = np.where(is_oil, 3.4 + 1.1 * rate + 2.0 * antisolvent, pure)
    is_clear = solute < np.where(is_one, one, other)
    return [np.where(is_clear, 0.0, crystals), np.where(is_clear, 0.0, impurity)]


# --- Breakthrough -----------------------------------------------------------------------------------------------------


def _front(s: ndarray) -> ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-60.0 * np.tanh(s / 60.0))))


def adsorber(time: ndarray, flow: ndarray, length: ndarray) -> Columns:
    """A bed that is loaded until its front comes through."""
    speed = flow / 0.2
    zone = 0.10 + 0.011 * speed**0.8
    through = 60.0 * 52.0 * 0.35 * 0.05 * np.logaddexp(0.0, (length - zone) / 0.05) / speed
    width = 1.6 + 0.012 * through
    width = 1.0 + 2.6 * width / (width + 3.0)
    return [
        120.0 * _front((time - through) / width) + 0.25 * speed / 20.0,
        1.2 * length * (0.35 * speed + 0.021 * speed**2),
    ]


def column(load: ndarray, speed: ndarray, gradient: ndarray, cut: ndarray) -> Columns:
    """A chromatographic column: product and impurity that have left it when the fraction is cut."""
    product = 2.2 + 9.0 / gradient**0.35 - 0.035 * load
    impurity = product + 0.9 + 0.55 + 3.0 / gradient**0.6 - 0.03 * load - 0.0012 * speed
    out = load * (0.97 - 0.0002 * speed) * _front((cut - product - 0.5) / (0.10 + 0.0003 * speed))
    return [out, 0.16 * load * _front((cut - impurity) / (0.09 + 0.0002 * speed)) + 0.0015 * load]


# --- Staged machines --------------------------------------------------------------------------------------------------


def _count(demand: ndarray, capacity: ndarray, most: int) -> ndarray:
    return 1.0 + sum((demand > count * capacity).astype(float) for count in range(1, most + 1))


def pumps(flow: ndarray, diameter: ndarray, height: ndarray) -> Columns:
    """A station that starts one more pump where the running ones do not suffice."""
    each = flow / 3600.0
    head = height + 1.98 * each**2 / diameter**5
    capacity = 300.0 * np.sqrt(1.2 - head / 110.0)
    running = _count(flow, capacity, 8)
    efficiency = 0.83 - 0.42 * (flow / running / capacity - 0.86) ** 2
    return [9.81 * each * head / efficiency + 30.0 * running]


def compressors(flow: ndarray, outlet: ndarray, cooling: ndarray, inlet: ndarray) -> Columns:
    """Stages by the ratio of pressures, parallel machines by the volume."""
    ratio = outlet / inlet
    stages = _count(np.log(ratio), np.log(2.65 * (1.0 - 0.004 * (cooling - 15.0))), 5)
    volume = flow * 0.287 * 298.0 / (100.0 * inlet)
    parallel = _count(volume, np.full_like(volume, 3.1), 3)
    efficiency = 0.80 - 0.22 * (volume / (3.1 * parallel) - 0.9) ** 2
    of_stage = ratio ** (1.0 / stages) * np.where(stages > 1, 1.025, 1.0)
    entering = (298.0 + (stages - 1.0) * (cooling + 273.0)) / stages
    rise = entering * (of_stage**0.286 - 1.0) / efficiency
    power = flow * 1.005 * rise * stages + 30.0 * stages * parallel
    water = flow * 1.005 * rise * (stages - 1.0) / 4.19 / (6.0 + 0.35 * (cooling - 15.0))
    return [power, np.where(stages > 1, cooling, 25.0) + rise, stages * parallel, water]


# --- Resonance --------------------------------------------------------------------------------------------------------


def _amplification(ratio: ndarray, damping: float) -> ndarray:
    return np.asarray(ratio**2 / np.sqrt((1.0 - ratio**2) ** 2 + (2.0 * damping * ratio) ** 2))


def rotor(speed: ndarray, stiffness: ndarray, mass: ndarray) -> Columns:
    """A rotor on springs, with two critical speeds."""
    critical = np.sqrt(1e6 * stiffness / mass) * 60.0 / (2.0 * np.pi)
    ratio = speed / critical
    first = 0.028 * _amplification(ratio, 0.016)
    second = 0.010 * _amplification(speed / (2.15 * critical + 120.0), 0.02)
    amplitude = np.sqrt(first**2 + second**2)
    return [amplitude, stiffness * amplitude * np.sqrt(1.0 + (0.032 * ratio) ** 2)]


def horn(frequency: ndarray, length: ndarray, voltage: ndarray, force: ndarray) -> Columns:
    """An ultrasonic welder: it works at one mode of its horn and heats itself at the next."""
    mode = 20.0 * (125.0 / length) ** 0.8 + 0.22 * (force - 1.2) - 0.00012 * (voltage - 500.0)
    drive = (voltage / 500.0) ** 2
    gain = drive / (1.0 + ((frequency - mode) / 0.032) ** 2)
    beside = drive / (1.0 + ((frequency - mode - 0.72) / 0.05) ** 2)
    weld = 420.0 * gain * force**0.6 / (0.35 + 0.65 * force) + 25.0 * drive
    return [weld, 45.0 + 62.0 * gain + 150.0 * beside + 22.0 * drive * force]


# --- Stability lobes --------------------------------------------------------------------------------------------------


def mill(speed: ndarray, depth: ndarray, feed: ndarray) -> Columns:
    """Depth up to which a mill does not chatter: the least of several lobes."""
    base = 1.3 * (1.0 + 0.9 * (0.2 - feed)) + 0.35 * feed / 0.2
    lobes = []
    for number, bend in enumerate((9.0, 6.5, 5.0, 4.5)):
        away = 13500.0 / speed - (number + 0.42)
        lobes.append(base * (1.0 + bend * away**2 * (1.0 + 0.5 * np.tanh(3.0 * away)) + 0.12 * number))
    cutting = 780.0 * (feed / 0.1) ** -0.26 * 4.0 * speed * feed * depth * 8.0 / 6.0e7 * 1.25
    return [np.min(lobes, 0) - depth, cutting + 0.35 * (speed / 10000.0) ** 2]


def combustor(air: ndarray, ratio: ndarray, pilot: ndarray, inlet: ndarray) -> Columns:
    """Growth of the loudest of four acoustic modes."""
    flame = inlet + 2120.0 * ratio - 260.0 * ratio**2
    delay = 8.2e-3 * (20.0 / air) * (0.55 / ratio) ** 0.7 * (650.0 / inlet) ** 0.5 * (1.0 - 0.5 * pilot)
    modes = []
    for hertz, gain, damping, phase in ((92, 58, 26, 0.4), (161, 66, 31, 1.0), (228, 49, 30, 2.1), (317, 45, 34, 0.0)):
        turns = 2.0 * np.pi * hertz * np.sqrt(flame / 1700.0) * delay + phase
        modes.append(gain * (1.0 - 1.6 * pilot) * (ratio / 0.55) * np.cos(turns) - damping - 40.0 * pilot)
    oxides = 4.5 * np.exp((flame - 1720.0) / 85.0) * (1.0 + 7.0 * pilot) * (20.0 / air) ** 0.3
    return [np.max(modes, 0), oxides]


# --- Saturation -------------------------------------------------------------------------------------------------------


def turbine(gate: ndarray, head: ndarray, speed: ndarray) -> Columns:
    """A turbine with a dead zone, a largest power and a shaft that limits it."""
    flow = np.maximum(38.0 * (gate - 14.0) / 86.0, 0.0) * np.sqrt(head / 60.0)
    efficiency = 0.92 - 0.34 * ((speed / np.sqrt(head) - 38.0 - 0.10 * gate) / 25.0) ** 2
    power = np.maximum(9.81e-3 * flow * head * efficiency - 0.45, 0.0)
    return [np.minimum(np.minimum(power, 11.5), 13.4 - 0.055 * (speed - 250.0) * 0.25), flow]


def coagulation(dose: ndarray, acidity: ndarray, mixing: ndarray, settling: ndarray) -> Columns:
    """Turbidity of water between that of the river and the least that can be measured."""
    mixed = (mixing / 280.0) ** 0.5 * np.exp(0.5 * (1.0 - mixing / 280.0))
    effective = dose * np.exp(-(((acidity - 6.5 - 0.004 * dose) / 0.95) ** 2)) * mixed
    removed = (effective - 11.0) / 17.0 * (0.55 + 0.45 * np.tanh(settling / 22.0))
    residual = np.maximum(0.011 * (dose - effective - 9.0) + 0.02 * (acidity - 6.8), 0.0)
    return [np.clip(34.0 * (1.0 - removed), 0.4, 34.0), 0.05 + residual]


# --- Fast in one corner -----------------------------------------------------------------------------------------------


def evaporator(solids: ndarray, temperature: ndarray, load: ndarray, time: ndarray) -> Columns:
    """Syrup, which becomes thick, brown and sticky all at once."""
    viscosity = 1.1 * np.exp(3.1 * solids / (1.06 - solids) - 0.021 * (temperature - 55.0))
    colour = 1.5 + 0.9 * np.exp((temperature - 84.0) / 6.5 + 9.0 * (solids - 0.66)) * (time / 10.0)
    transfer = 2.1 / (1.0 + (viscosity / 220.0) ** 0.8) * (load / 40.0) ** 0.25
    return [viscosity, colour, transfer / (1.0 + 4.0 * np.exp((solids - 0.78) / 0.025 + (temperature - 100.0) / 7.0))]


def electrolyser(current: ndarray, temperature: ndarray, flow: ndarray) -> Columns:
    """The voltage of a cell, which rises without bound at its limiting current."""
    limiting = 2.03 + 0.55 * (flow - 0.5) / 2.5 + 0.006 * (90.0 - temperature)
    volts = 1.19 - 0.0008 * (temperature - 60.0) + 0.034 * np.log(current / 2e-4) * (temperature + 273.0) / 350.0
    volts += current * (0.17 - 0.0011 * (temperature - 60.0))
    return [volts - 0.090 * np.log(1.0 - (current / limiting) ** 2)]


# --- The table --------------------------------------------------------------------------------------------------------

PLANTS = {
    "boiler": Plant(
        boiler,
        {"flux": (200.0, 1800.0), "flow": (500.0, 3000.0), "pressure": (20.0, 140.0), "subcooling": (10.0, 120.0)},
        ["wall", "drop"],
        "0.9*flux - 0.0011*flow*drop - 0.17*flow - 0.8*pressure - 0.018*subcooling**2",
        {"metal": "wall <= 390", "drop limit": "110 - drop >= 0"},
        557.7400282671131,
        [1727.7175317798278, 3000.0, 60.95636091287184, 120.0],
    ),
    "tube": Plant(
        tube,
        {"coolant": (600.0, 660.0), "feed": (0.5, 2.0), "speed": (0.8, 3.0)},
        ["hottest", "b"],
        "100*feed*speed*(b - 0.25) - 9*speed**3 - 22*feed**2",
        {"catalyst": "690 - hottest >= 0"},
        84.24957186765565,
        [610.3654168721285, 2.0, 2.0628203098077114],
    ),
    "drum": Plant(
        drum,
        {"temperature": (40.0, 160.0), "pressure": (1.0, 12.0), "light": (0.2, 0.8)},
        ["vapour", "top", "duty"],
        "95*vapour*(top + 0.05) - 0.3*duty - 75*light**2 - 0.5*pressure",
        {"purity": "top >= 0.66", "heat": "duty <= 36"},
        24.91984470765712,
        [69.92884396298386, 1.0, 0.6611335996683699],
    ),
    "crystallizer": Plant(
        crystallizer,
        {"temperature": (-5.0, 50.0), "solute": (0.15, 0.6), "antisolvent": (0.0, 0.5), "rate": (0.1, 2.0)},
        ["crystals", "impurity"],
        "100*crystals*rate/(rate + 0.5) - 8*antisolvent - 70*solute**2 - 0.15*(30 - temperature)",
        {"quality": "1.0 - impurity >= 0", "slurry": "crystals >= 0.05"},
        13.269280805754194,
        [30.933352718041963, 0.5174628205253619, 0.1660939742250853, 1.9999999999999993],
    ),
    "adsorber": Plant(
        adsorber,
        {"time": (20.0, 180.0), "flow": (1.0, 6.0), "length": (0.5, 2.5)},
        ["outlet", "drop"],
        "flow*time/(time + 35 + 12*length) - 0.35*length - 0.004*drop",
        {"spec": "outlet <= 3", "blower": "drop <= 45"},
        1.7315200682669476,
        [55.23615014015806, 5.022786391946059, 1.7018551824544308],
    ),
    "column": Plant(
        column,
        {"load": (2.0, 20.0), "speed": (50.0, 300.0), "gradient": (2.0, 20.0), "cut": (4.0, 12.0)},
        ["product", "impurity"],
        "0.01*speed*product/(cut + 5) - 0.004*gradient - 0.00003*speed**2",
        {"purity": "product - 0.985*(product + impurity) >= 0"},
        1.8877232189589397,
        [20.0, 208.0541273515481, 11.293252799075386, 6.321323248161058],
    ),
    "pumps": Plant(
        pumps,
        {"flow": (200.0, 1400.0), "diameter": (0.35, 0.7), "height": (12.0, 40.0)},
        ["power"],
        "1.2*flow**0.6 - 0.16*power - 45*diameter**1.5 + 6*sqrt(height)",
        {},
        58.5876853874692,
        [1199.4074345416714, 0.5086112039486106, 15.651115637439897],
    ),
    "compressors": Plant(
        compressors,
        {"flow": (2.0, 12.0), "outlet": (6.0, 40.0), "cooling": (15.0, 45.0), "inlet": (1.0, 3.0)},
        ["power", "hottest", "machines", "water"],
        "22*flow*log(outlet) - 0.10*power - 14*flow*inlet**0.8 - 8*machines - 0.8*water",
        {"oil": "hottest <= 150", "grid": "2600 - power >= 0"},
        56.296754707092575,
        [7.175727213406854, 35.08547568554632, 29.44390040763143, 2.253858824959304],
    ),
    "rotor": Plant(
        rotor,
        {"speed": (900.0, 3600.0), "stiffness": (2.0, 20.0), "mass": (250.0, 900.0)},
        ["amplitude", "force"],
        "2.0*stiffness - 0.03*mass + 0.006*speed - 100*amplitude",
        {"vib": "0.09 - amplitude >= 0", "found": "force <= 0.8"},
        41.74444857963933,
        [3600.0, 17.420184826107686, 336.9999449438352],
    ),
    "horn": Plant(
        horn,
        {"frequency": (19.0, 21.0), "length": (115.0, 135.0), "voltage": (200.0, 900.0), "force": (0.4, 2.4)},
        ["weld", "heat"],
        "100*tanh(weld/250) - 0.05*voltage - 6*force - 0.05*(length - 122)**2",
        {"tip": "heat <= 125"},
        66.69354651738877,
        [20.213023413179982, 121.99999966602807, 528.8123016360022, 0.4000000000000017],
    ),
    "mill": Plant(
        mill,
        {"speed": (4000.0, 14000.0), "depth": (0.5, 6.0), "feed": (0.04, 0.2)},
        ["margin", "power"],
        "0.032*speed*feed*depth/(1 + (speed/15000)**4)",
        {"chatter": "margin >= 0.1", "finish": "3.2 - 190*feed**2 >= 0", "spindle": "power <= 6.5"},
        106.60662498004476,
        [7579.799343425172, 3.6075353093087172, 0.12977713690461],
    ),
    "combustor": Plant(
        combustor,
        {"air": (10.0, 30.0), "ratio": (0.4, 0.7), "pilot": (0.02, 0.25), "inlet": (550.0, 750.0)},
        ["growth", "oxides"],
        "2.9*air*ratio*(1 - 1.2*pilot) + 0.012*(inlet - 550) - 0.02*air**2",
        {"hum": "growth <= -5", "air law": "oxides <= 25"},
        28.74864072910586,
        [19.805148021558534, 0.6658936889806492, 0.03599630396429512, 550.0000000000039],
    ),
    "turbine": Plant(
        turbine,
        {"gate": (5.0, 100.0), "head": (30.0, 80.0), "speed": (150.0, 450.0)},
        ["power", "flow"],
        "62*power - 9*flow - 1.6*head - 0.05*speed",
        {"river": "flow >= 11"},
        417.5312690810181,
        [46.55884843897267, 79.99999999999997, 359.20341397274717],
    ),
    "coagulation": Plant(
        coagulation,
        {"dose": (5.0, 80.0), "acidity": (5.5, 8.5), "mixing": (50.0, 600.0), "settling": (10.0, 60.0)},
        ["turbidity", "residual"],
        "-(0.9*dose + 0.02*mixing + 0.25*settling + 9*(7.4 - acidity)**2) - 3.2*turbidity",
        {"residual limit": "residual <= 0.2"},
        -42.2637202335393,
        [32.74454656380299, 6.803594474401197, 200.13040352840977, 17.238897187461433],
    ),
    "evaporator": Plant(
        evaporator,
        {"solids": (0.4, 0.8), "temperature": (55.0, 100.0), "load": (15.0, 60.0), "time": (3.0, 20.0)},
        ["viscosity", "colour", "transfer"],
        "60*solids**2*transfer + 0.05*load*solids - 0.02*time*load**0.5 + 130*solids",
        {"pump": "viscosity <= 3000", "colour limit": "colour <= 6", "hold": "time*load >= 250"},
        128.98030887828764,
        [0.661544082349739, 100.0, 59.99999999999999, 4.166666666666672],
    ),
    "electrolyser": Plant(
        electrolyser,
        {"current": (0.2, 2.0), "temperature": (50.0, 90.0), "flow": (0.5, 3.0)},
        ["volts"],
        "(9.0*current - 2.4*current*volts - 0.35*flow**1.3 - 0.012*(temperature - 50)*flow**0.5)"
        "/(1.6 + 0.12*exp((temperature - 80)/6))",
        {"safe": "volts <= 1.95", "crossover": "current - 0.12*flow - 0.4 >= 0"},
        5.121372560747354,
        [1.9553958926232564, 50.00000000000024, 0.7695183190687551],
    ),
}
