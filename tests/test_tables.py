"""Tables as laboratories keep them: separators, decimal commas, gaps, and what a spreadsheet must not run."""

import contextlib
import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pied import StatementError
from pied.shell.tables import Table, to_csv, to_number


@pytest.mark.parametrize("text", ["a,b\n1.5,2\n", "a;b\n1,5;2\n", "a\tb\n1,5\t2\n", "\n a , b \n\n 1.5 , 2 \n,\n"])
def test_separators_and_decimal_commas_are_understood(text: str) -> None:
    table = Table.parse(text, "t.csv")
    assert table.columns == ("a", "b")
    assert [table.number(0, "a"), table.number(0, "b")] == [1.5, 2.0]
    assert len(table.rows) == 1


def test_a_spreadsheets_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa;b\r\n1;2\r\n")
    assert Table.read(tmp_path / "t.csv").columns == ("a", "b")


def test_a_column_may_end_early_but_has_no_gaps() -> None:
    table = Table.parse("a,b\n1,2\n3,\n,\n4,\n", "t.csv")
    assert table.column("b") == [2.0]
    assert table.column("a") == [1.0, 3.0, 4.0]  # the empty line is none
    with pytest.raises(StatementError, match=r"t\.csv, line 2: 'a' is empty; every row up to the last"):
        Table.parse("a,b\n,2\n3,1\n", "t.csv").column("a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv is empty"),
        ("a,a\n1,2", r"line 1: two columns are called 'a'"),
        ("a,\n1,2", "a column has no name"),
        ("a,b\n1", r"line 2: 1 cells for 2 columns"),
        ("a,b\n0,5,2", r"line 2: 3 cells for 2 columns; write decimals with a point, 0\.5"),
        ('a,b\n"1,2', "line 2: this is not a table"),
        ("a,b\n" + "1" * 200_000 + ",2", "this is not a table"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        Table.parse(text, "t.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", r"'x' is not a number: write it like 0.78, without % or a unit, or leave it out"),
        ("nan", "not a finite number"),
        ("1e999", "not a finite number"),
        ("1_0", "not a finite number"),
        ("0,5", r"write '0,5' with a decimal point"),
        ("", "is not a number"),
    ],
)
def test_what_is_no_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        to_number(text, "here")


def test_numbers_are_read_as_people_write_them() -> None:
    assert [to_number(text, "") for text in (" 1.5 ", "−2", "1e-3", ".5")] == [1.5, -2.0, 0.001, 0.5]
    assert to_number("0,5", "", comma=True) == 0.5


def test_misspelled_columns_are_refused_and_others_are_named() -> None:
    table = Table.parse("temperature,date,yield\n1,2,3\n", "t.csv")
    assert table.check_columns(["temperature"], ["temperature", "yield", "pressure"]) == ["date"]
    with pytest.raises(StatementError, match=r"'yield' is neither .* Did you mean 'yeild'\?"):
        table.check_columns(["temperature"], ["temperature", "yeild"])
    with pytest.raises(StatementError, match=r"no column 'pressure', which is needed"):
        table.check_columns(["pressure"], ["pressure"])


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r\n@x"])
def test_text_that_a_spreadsheet_would_run_is_made_harmless(text: str) -> None:
    written = list(csv.reader(io.StringIO(to_csv(["n", text], [{"n": -1.5, text: text}]), newline="")))
    assert written[0][1].startswith("'")
    assert written[1] == ["-1.5", f"'{text.strip()}"]  # a number stays a number


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numbers_survive_a_table_to_the_last_bit(values: list[float]) -> None:
    table = Table.parse(to_csv(["a"], [{"a": value} for value in values]), "t.csv")
    assert table.column("a") == values


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet=',;\t"\n1.a-', max_size=60))
def test_random_text_raises_nothing_but_statement_errors(text: str) -> None:
    with contextlib.suppress(StatementError):
        table = Table.parse(text, "t.csv")
        for column in table.columns:
            table.column(column)
