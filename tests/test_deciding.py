"""The commands about decisions: sweep, sensitivities."""

from pathlib import Path

import pytest

from decisions import outputs
from pied.rng import Stream
from shells import data, pied_

pytestmark = pytest.mark.slow
FILE = """
maximize = "price*product - cost*a"
name = "profit"
[variables]
a = { lo = 0.0, hi = 1.0 }
b = { lo = 0.0, hi = 1.0 }
[outputs]
product = { noise = 0 }
waste = { noise = 0 }
[subject_to]
"waste limit" = "waste <= 0.8"
[constants]
price = 2.0
cost = 0.5
[study]
seed = 1
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study with twenty measurements."""
    folder: Path = tmp_path_factory.mktemp("deciding")
    (folder / "plant.toml").write_text(FILE)
    rows = ["a,b,product,waste"]
    for a, b in Stream(1).sobol(20, 2).tolist():
        y = outputs(a, b)
        rows.append(f"{a},{b},{y['product']},{y['waste']}")
    (folder / "old.csv").write_text("\n".join(rows))
    pied_("add", str(folder / "plant.toml"), str(folder / "old.csv"))
    return str(folder / "plant.toml")


def test_a_sweep_is_a_table_a_file_and_a_picture(file: str, tmp_path: Path) -> None:
    table, picture = tmp_path / "curve.csv", tmp_path / "curve.svg"
    said = pied_("sweep", file, "price=1:3:4", "--csv", str(table), "--plot", str(picture)).stdout
    assert "trust" in said
    assert "sharpened most" in said
    assert len(table.read_text().splitlines()) == 5
    assert "<svg" in picture.read_text()
    again = pied_("sweep", file, "price=1:3:4", "--csv", str(table), code=2)
    assert "exists already" in again.stderr


def test_a_sweep_of_two_is_json_and_a_map(file: str, tmp_path: Path) -> None:
    found = data("sweep", file, "price=1:3:2", "waste limit=0.5:1:3", "--plot", str(tmp_path / "map.png"))
    assert [each["changes"]["waste limit"] for each in found["points"]] == [0.5, 0.75, 1.0] * 2
    assert (tmp_path / "map.png").stat().st_size > 1000


@pytest.mark.parametrize("word", ["price", "price=1", "price=a:b", "price=1:2:0", "=1:2"])
def test_a_range_that_cannot_be_read_shows_the_form(file: str, word: str) -> None:
    assert "NAME=FROM:TO" in pied_("sweep", file, word, code=2).stderr


def test_an_unknown_name_is_a_mistake(file: str) -> None:
    assert "Did you mean 'price'" in pied_("sweep", file, "prize=1:2", code=2).stderr


def test_sensitivities_are_said_and_given_as_data(file: str) -> None:
    said = pied_("sensitivities", file).stdout
    assert "waste limit: 1 % looser brings about" in said
    assert "stay within 1 % of the best for price" in said
    found = data("sensitivities", file)
    assert found["limits"]["waste limit"]["rate"] == pytest.approx(1.458, rel=0.05)
    assert data("result", file)["sensitivities"]["limits"]["waste limit"]["rate"] > 1
