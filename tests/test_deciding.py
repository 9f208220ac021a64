"""The commands about decisions: sweep, sensitivities, result --pick."""

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


# --- One point of a front ---------------------------------------------------------------------------------------------

FRONT = FILE.replace(
    'maximize = "price*product - cost*a"\nname = "profit"', 'maximize = { profit = "price*product - cost*a" }\n'
    'minimize = { "b used" = "b" }'
)  # fmt: skip


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study of profit against what is used of b, with ten measurements."""
    folder: Path = tmp_path_factory.mktemp("front")
    (folder / "plant.toml").write_text(FRONT)
    rows = ["a,b,product,waste"]
    for a, b in Stream(1).sobol(10, 2).tolist():
        y = outputs(a, b)
        rows.append(f"{a},{b},{y['product']},{y['waste']}")
    (folder / "old.csv").write_text("\n".join(rows))
    pied_("add", str(folder / "plant.toml"), str(folder / "old.csv"))
    return str(folder / "plant.toml")


def test_a_point_of_a_front_is_picked_by_what_it_reaches(front: str) -> None:
    points = data("result", front)["front"]["points"]
    profits = sorted(point["values"]["profit"] for point in points)
    assert len(profits) > 2
    found = data("result", front, "--pick", f"profit={profits[1] - 1e-9}", "--pick", "b used=1")
    least = min(p["values"]["b used"] for p in points if p["values"]["profit"] >= profits[1] - 1e-9)
    assert found["values"]["b used"] == least
    assert found in points
    said = pied_("result", front, "--pick").stdout
    knee = data("result", front, "--pick")
    assert f"trial {knee['trial']}" in said
    assert "limit 0.800000: met" in said
    assert knee in points


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("profit=100", "the best is"),
        ("profits=1", "Did you mean 'profit'"),
        ("profit", "NAME=VALUE, for instance profit=0.5"),
        ("profit=high", "is not a number"),
    ],
)
def test_a_wish_that_cannot_be_met_or_read_says_what_can(front: str, word: str, remedy: str) -> None:
    assert remedy in pied_("result", front, "--pick", word, code=2).stderr


def test_nothing_is_picked_where_there_is_one_objective_or_no_front_yet(file: str, tmp_path: Path) -> None:
    assert "leave it out" in pied_("result", file, "--pick", "profit=1", code=2).stderr
    (tmp_path / "plant.toml").write_text(FRONT)
    pied_("ask", str(tmp_path / "plant.toml"))
    assert data("result", str(tmp_path / "plant.toml"), "--pick", code=3) is None
    assert "trade" not in pied_("result", str(tmp_path / "plant.toml"), "--pick", code=3).stdout
