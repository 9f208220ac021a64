"""Files are written whole or not at all, and a store on a full disk can still be read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pied import Study, report
from pied.errors import SettingError, StoreAway
from pied.shell.laboratory import write
from pied.shell.speech import Mistake
from pied.writing import replaced
from shells import data, full_disk, pied_
from tiny import parabola

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no limits of file sizes")


def reported(file: Path) -> None:
    with Study(parabola(), seed=0, solver="random") as study:
        study.run(2)
        report.write(study, file)


@pytest.mark.parametrize(
    ("make", "refusal"), [(lambda file: write(file, "a" * 1000), Mistake), (reported, SettingError)]
)
def test_a_file_for_which_there_is_no_room_leaves_what_was_there(
    tmp_path: Path, make: Callable[[Path], None], refusal: type[Exception]
) -> None:
    file, link = tmp_path / "page.html", tmp_path / "link.html"
    with full_disk(), pytest.raises(refusal, match="cannot be written"):
        make(file)
    assert not list(tmp_path.iterdir())
    make(file)
    before = file.read_bytes()
    link.symlink_to(file)
    file.chmod(0o640)
    with full_disk(), pytest.raises(refusal, match="cannot be written"):
        make(link)
    assert file.read_bytes() == before
    make(link)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 2


def test_what_fails_before_a_file_is_replaced_leaves_it(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), replaced(file, "new"):
        _ = 1 / 0
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


def test_a_first_file_can_be_written_after_room_was_made(lab: Path) -> None:
    with full_disk():
        said = pied_("init", "new.toml", code=2).stderr
    assert "'new.toml' cannot be written" in said
    pied_("init", "new.toml")


def test_a_store_on_a_full_disk_is_read_and_says_why_it_cannot_be_written(lab: Path) -> None:
    with Study(parabola(), name="a", store=lab / "a.db", seed=0, worker="w") as study:
        study.add({"x": 0.1}, {"y": 1.0})
    with full_disk():
        with Study(parabola(), name="a", store=lab / "a.db", read_only=True) as study:
            assert len(study.trials) == 1
        with pytest.raises(StoreAway, match=r"the disk .*full"), Study(parabola(), name="a", store=lab / "a.db"):
            pass
    with Study(parabola(), name="a", store=lab / "a.db", worker="w") as study:
        study.add({"x": 0.2}, {"y": 1.0})
        assert len(study.trials) == 2
    pied_("ask", "lab.toml")
    with full_disk():
        assert data("status", "lab.toml")["trials"]
