"""Excel files in and out, and CSV files as Excel writes them."""

import sys
from pathlib import Path

import pytest

from pied import MissingExtra, StatementError
from pied.shell.tables import Table
from shells import data, pied_

openpyxl = pytest.importorskip("openpyxl")
ROWS = [["date", "temperature", "time", "product", "impurity"], ["Monday", 70, 1.5, 0.4, "0,03"], [None] * 5,
        ["Tuesday", 80, 2, 0.5, None]]  # fmt: skip


def book(file: Path, rows: list[list[object]]) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    made.save(file)
    return file


def test_an_excel_file_is_a_table(tmp_path: Path) -> None:
    table = Table.read(book(tmp_path / "t.xlsx", ROWS))
    assert table.columns == ("date", "temperature", "time", "product", "impurity")
    assert [table.number(0, name) for name in table.columns[1:]] == [70.0, 1.5, 0.4, 0.03]
    assert table.number(1, "impurity") is None
    assert table.place(1) == "t.xlsx, line 4"


def test_old_data_come_from_excel(lab: Path) -> None:
    book(lab / "old.xlsx", ROWS)
    shown = pied_("add", "lab.toml", "old.xlsx")
    assert shown.stdout == "2 rows added\n"
    assert shown.stderr == "old.xlsx: ignored columns: date\n"


def test_a_run_sheet_goes_out_and_comes_back_as_excel(lab: Path) -> None:
    pied_("ask", "lab.toml", "--count", "2", "--sheet", "plan.xlsx")
    filled = openpyxl.load_workbook(lab / "plan.xlsx")
    sheet = filled.active
    assert [cell.value for cell in sheet[1]] == ["trial", "temperature", "time", "product", "impurity"]
    sheet["D2"], sheet["E2"] = 0.6, 0.05
    filled.save(lab / "plan.xlsx")
    assert "trial 1: complete" in pied_("tell", "lab.toml", "--from", "plan.xlsx").output
    assert data("status", "lab.toml")["trials"]["told"] == 1


def test_the_record_is_exported_as_excel_and_no_text_is_a_formula(lab: Path) -> None:
    pied_("ask", "lab.toml")
    pied_("fail", "lab.toml", "1", "=1+1")
    assert "1 trials are in record.xlsx." in pied_("export", "lab.toml", "--output", "record.xlsx").output
    sheet = openpyxl.load_workbook(lab / "record.xlsx").active
    row = dict(zip([cell.value for cell in sheet[1]], sheet[2], strict=True))
    assert (row["reason"].value, row["reason"].data_type) == ("=1+1", "s")
    assert isinstance(row["temperature"].value, float | int)
    assert "exists already" in pied_("export", "lab.toml", "--output", "record.xlsx", code=2).stderr


def test_exports_have_the_digits_a_person_would_write_and_all_on_demand(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product,impurity\n70,1.1,0.30000000000000004,0.0312\n")
    pied_("add", "lab.toml", "old.csv")
    assert ",70,1.1,0.3,0.0312,5.56,0.0488," in pied_("export", "lab.toml").output
    assert "0.30000000000000004" in pied_("export", "lab.toml", "--full").output


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("start", ["", "sep=;\r\n"])
def test_a_csv_file_of_any_excel_is_read(tmp_path: Path, encoding: str, start: str) -> None:
    text = f"{start}Größe;T\r\n0,5;70\r\n"
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    table = Table.read(tmp_path / "t.csv")
    assert table.columns == ("Größe", "T")
    assert table.number(0, "Größe") == 0.5
    assert table.place(0) == f"t.csv, line {3 if start else 2}"


def test_what_is_not_an_excel_file_is_refused_in_one_line(tmp_path: Path, lab: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(StatementError, match="cannot be read as an Excel file"):
        Table.read(tmp_path / "t.xlsx")
    with pytest.raises(StatementError, match="there is no table"):
        Table.read(tmp_path / "none.xlsx")
    (tmp_path / "b.csv").write_bytes(b"a;b\n1;\x00\x81\n")
    with pytest.raises(StatementError, match="is not UTF-8 text"):
        Table.read(tmp_path / "b.csv")


def test_a_missing_openpyxl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book(tmp_path / "t.xlsx", ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r'needs openpyxl: pip install .*\[excel\]"'):
        Table.read(tmp_path / "t.xlsx")


def test_a_sheet_of_a_workbook_is_added_by_its_name(lab: Path) -> None:
    made = openpyxl.Workbook()
    made.active.append(["remarks"])
    sheet = made.create_sheet("runs")
    for row in (["temperature", "time", "product", "impurity"], [80, 2, 0.5, 0.1]):
        sheet.append(row)
    made.save(lab / "book.xlsx")
    refused = pied_("add", "lab.toml", "book.xlsx", code=2)
    assert "the sheet 'Sheet' is read; others, with --sheet: runs" in refused.stderr
    assert "book.xlsx has no sheet 'run'" in pied_("add", "lab.toml", "book.xlsx", "--sheet", "run", code=2).stderr
    assert "1 row added" in pied_("add", "lab.toml", "book.xlsx", "--sheet", "runs").output
