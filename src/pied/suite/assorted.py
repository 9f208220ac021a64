"""Random problems with integers, steps, standard sizes and choices, beside continuous variables."""

from dataclasses import replace

from pied.problem import Choice, Integer, Levels, Variable
from pied.rng import Stream
from pied.suite.latent import MAKERS
from pied.suite.sketch import PROPERTY, Sketch, drawn_variable, number, pick, synthetic

MOST_SETTINGS = 150
"""Settings of the discrete variables of one problem, at most: the optimum is found by trying all of them."""
SHARES = (0.3, 0.5, 0.6, 0.7)
"""Below these shares a further variable is continuous, an integer, stepped, of listed sizes; else a choice."""
LABELS = "ABCDEFGH"


def mixed(stream: Stream, d: int, m: int, n: int) -> Sketch:
    """Draw a problem of which at least one variable is discrete.

    Args:
        stream: randomness of the problem.
        d: variables.
        m: outputs, each with its own inputs.
        n: constraints.
    """
    variables: dict[str, Variable] = {}
    room = MOST_SETTINGS
    for j in range(d):
        drawn = _variable(stream.at("mixed", j), room, is_discrete=j == 0)
        room //= len(drawn.levels()) if drawn.is_stepped else 1
        variables[f"x{j + 1}"] = drawn
    made = synthetic(pick(stream.at("base"), tuple(MAKERS)), stream, d, m, n, variables)
    counted = sum(each.is_stepped for each in variables.values())
    chosen = sum(each.is_choice for each in variables.values())
    return replace(made, note=f"{counted} of {d} variables discrete, {chosen} of them choices; {made.note}")


def _variable(stream: Stream, room: int, *, is_discrete: bool) -> Variable:
    """Draw a variable that takes at most so many values, or any value of its box."""
    share, size = stream.at("kind").uniform(2).tolist()
    share = SHARES[0] + (1 - SHARES[0]) * share if is_discrete else share
    if share < SHARES[0] or room < 3:
        return drawn_variable(stream.at("box"))
    few, many = (3 + int(size * (most - 2)) for most in (min(5, room), min(12, room)))
    lo = int(10 * stream.at("lo").uniform(1).item())
    if share < SHARES[1]:
        return Integer(lo, lo + many - 1)
    if share < SHARES[2]:
        step = float(number(10.0 ** int(4 * stream.at("step").uniform(1).item() - 2)))
        return Variable(0.0, float(number((many - 1) * step)), step=step)
    if share < SHARES[3]:
        growth = 1.2 + 0.6 * stream.at("growth").uniform(1).item()
        return Levels(*(float(f"{10 * growth**i:.2g}") for i in range(few)))
    grades = stream.at("grade").uniform(few).tolist()
    labels = LABELS[:few]
    return Choice(
        *labels, properties={PROPERTY: {a: float(number(each)) for a, each in zip(labels, grades, strict=True)}}
    )
