"""The commands `pied init` and `pied check` (`statement_file` reads the files)."""

from pathlib import Path
from typing import Any

import click

from pied.shell.laboratory import free_name
from pied.shell.options import as_json
from pied.shell.speech import Mistake, Verdict, say, say_json
from pied.writing import create

TEMPLATE = """\
# A part-known problem. Lines that start with # are remarks. Check this file at any time with
#     pied check {file}
# What you know is written here as formulas. What you do not know is measured, and modelled.

# What you want: a formula of variables, outputs and constants. Write minimize for the smallest value.
maximize = "price * product - heating * (temperature - 20) - 0.4 * time"
name     = "profit"
unit     = "EUR/h"

# What can be set, and within which limits.
[variables]
temperature = {{ lo = 60, hi = 100, unit = "degC" }}
time        = {{ lo = 0.5, hi = 6, unit = "h" }}
# catalyst  = {{ lo = 1e-4, hi = 1e-1, log = true }}    # ranges over powers of ten
# stirring  = {{ lo = 100, hi = 600, step = 50 }}    # only 100, 150, ...; round = 1 for one digit after the point
# stages    = {{ integer = [2, 8] }}    # whole numbers
# nozzle    = {{ levels = [10, 15, 22], unit = "mm" }}    # listed sizes
# solvent   = {{ choices = ["MeCN", "DMF"], properties = {{ price = {{ MeCN = 3, DMF = 2 }} }} }}    # labels
# [mixtures.blend]    # parts that add up
# parts = ["water", "glycol", "salt"]
# total = 1

# What is measured. All of this is optional:
#   range   what it can be; inf for an open end
#   noise   standard deviation of a measurement, 0 for an exact one; leave it out to have it learned
#   inputs  the variables it depends on; leave it out for all
#   unit    for people: unit = "mol/L"
#   model   what you know of it, a formula; what that leaves is learned: model = "1 - exp(-time)"
#   length  for a vector: c = {{ length = 24 }} gives c[1] ... c[24], and c in formulas
[outputs]
product  = {{ range = [0, 1], noise = 0.005 }}
impurity = {{ range = [0, inf], noise = 0.001 }}

# What must hold: a name and a comparison.
[subject_to]
purity = "impurity <= limit"

# Numbers for the formulas. When prices or limits change, change them here: the data stay valid (pied revise).
[constants]
price   = 20.0
heating = 0.03
limit   = 0.08
# measured = {{ file = "old.csv", column = "c" }}    # a list of numbers from a table beside this file

[study]
seed = 1    # of everything random; leave it out to have one drawn

# To let a program evaluate the points, name it here; it is started by `pied run` only. A point comes as JSON on its
# standard input and in place of names in braces; the outputs are what it prints, as JSON or as numbers.
# [run]
# command = "python simulate.py --temperature {{temperature}} --time {{time}}"
# timeout = 600    # seconds
# A simulator that was exported as an FMU, instead of a command:    fmu = "model.fmu"
"""


@click.command()
@click.argument("file", default="problem.toml")
@as_json
def init(file: str, as_json: bool) -> None:
    """Write a commented problem file to begin with; FILE is problem.toml by default."""
    place = Path(file)
    if place.suffix.lower() != ".toml":
        raise Mistake(f"a problem file ends in .toml: pied init {place.stem or 'problem'}.toml")
    try:
        create(place, TEMPLATE.format(file=file))
    except FileExistsError:
        raise Mistake(f"'{file}' exists already and was not changed: name another file, {free_name(file)}") from None
    except (OSError, ValueError) as error:
        raise Mistake(f"'{file}' cannot be written: {getattr(error, 'strerror', None) or error}") from None
    if as_json:
        say_json({"file": file})
        return
    say(f"{file} is written: an example that works. Make it yours with any text editor, then")
    say(f"  pied check {file}")
    say(f"  pied ask {file}")


@click.command()
@click.argument("file")
@as_json
@click.option("--why", is_flag=True, help="Show also how each formula uses the outputs and is computed.")
def check(file: str, as_json: bool, why: bool) -> None:
    """Check a problem file and show what was understood: goal, limits, ranges, units."""
    from pied.problem import unreachable
    from pied.shell.pages import constant_lines, sizes, statement_lines, structure_of
    from pied.shell.statement_file import read
    from pied.study import hopeless

    stated = read(file)
    if stated.fmu is not None:
        stated.fmu.check_file()
    problem = stated.problem
    impossible = [str(each) for each in unreachable(problem)]
    conflict = None if impossible else hopeless(problem)
    if conflict is not None:
        names = ", ".join(f"'{name}'" for name in conflict.conflict)
        together = " together" * (len(conflict.conflict) > 1)
        impossible = [f"{names} cannot be met{together} within the ranges of the variables."]
    if impossible:
        raise Verdict(f"{file}: {' '.join(impossible)}")
    if as_json:
        say_json({"study": stated.name, "store": str(stated.store), "statement": problem.statement(),
                  "structure": structure_of(problem), "ways": problem.ways,
                  "command": stated.command and str(stated.command),
                  "fmu": stated.fmu and str(stated.fmu)})  # fmt: skip
        return
    say(f"{file}: {sizes(problem)}. It can be used.\n")
    say("\n".join(statement_lines(problem, why=why)))
    if why:
        say("computed\n" + "\n".join(f"  {name}: {way}" for name, way in problem.ways.items()))
    if problem.constants:
        say("constants\n" + "\n".join(f"  {line}" for line in constant_lines(problem)))
    words: dict[str, Any] = {name: value for name, value in stated.study.items() if value is not None}
    settings = "".join(f", {name} {value}" for name, value in words.items() if name != "settings")
    say(f"study '{stated.name}', kept in {stated.store}{settings}")
    if stated.command is not None:
        say(f"command, started by 'pied run' only: {stated.command}")
    if stated.fmu is not None:
        say(f"simulator, started by 'pied run' only: {stated.fmu}")
