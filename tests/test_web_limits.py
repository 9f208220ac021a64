"""What no laboratory sends: every odd or oversized request gets a status and a sentence, and takes no time."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shells import full_disk, pied_

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from pied.errors import StatementError
from pied.shell import tables
from pied.shell.tables import Table
from pied.web import limits
from test_web import FORM, client

JSON = {"content-type": "application/json"}
HEAD = "temperature,time,product,impurity\n"
HUGE = "9" * 400


@pytest.fixture
def web(lab: Path) -> TestClient:
    """A laboratory with four trials, whose mistakes come as answers."""
    (lab / "old.csv").write_text(f"{HEAD}70,1,0.4,0.02\n80,2,0.6,0.05\n90,4,0.7,0.09\n95,5,0.71,0.1\n")
    pied_("add", "lab.toml", "old.csv")
    made = client(lab, "lab.toml")
    made.base_url = "http://127.0.0.1:1"
    return TestClient(made.app, base_url=made.base_url, headers=made.headers, raise_server_exceptions=False)


def said(answer: Any, status: int) -> str:
    """Return the sentence of a refusal."""
    assert answer.status_code == status, answer.text[:300]
    return str(answer.json()["error"])


@pytest.mark.parametrize("headers", [{"Host": "["}, {"Host": "[::1"}, {"Origin": "http://["}, {"Origin": "["}])
def test_addresses_that_are_none_are_refused(web: TestClient, headers: dict[str, str]) -> None:
    assert said(web.post("/api/studies/lab/ask", json={}, headers=headers), 403)


@pytest.mark.parametrize("number", ["9" * 4400, "9" * 400, "-1", "1.5", "٣", "x"])
def test_what_is_no_trial_is_not_found(web: TestClient, number: str) -> None:
    assert "no such trial" in said(web.post(f"/api/studies/lab/trials/{number}/note", json={"text": "x"}), 404)
    assert "no such trial" in said(web.get("/api/studies/lab/history", params={"trial": number}), 404)


@pytest.mark.parametrize("number", [HUGE, "9" * 5000, "1e999", "-1e999"])
def test_numbers_beyond_all_numbers_are_refused(web: TestClient, number: str) -> None:
    for path, body in {
        "what-if": '{"constants": {"price": %s}}', "revise": '{"limits": {"purity": %s}}',
        "slices": '{"at": {"time": %s}}', "trials/1/tell": '{"values": {"product": %s}}', "ask": '{"count": %s}',
    }.items():  # fmt: skip
        answer = web.post(f"/api/studies/lab/{path}", content=body % number, headers=JSON)
        assert "is too large for a number" in said(answer, 400)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("trials/1/note", '{"text": "\\ud800"}'), ("trials/1/note", '{"text": "x", "worker": "a\\udfff"}'),
        ("trials/1/tell", '{"values": {"\\ud800": 1}}'), ("trials/1/tell", '{"\\ud800": 1}'),
        ("../../check", '{"unit": "\\ud800"}'), ("../../check", '{"outputs": [{"name": "\\ud800"}]}'),
    ],
)  # fmt: skip
def test_half_characters_are_refused(web: TestClient, path: str, body: str) -> None:
    path = "/api/check" if "check" in path else f"/api/studies/lab/{path}"
    assert "half of a character" in said(web.post(path, content=body, headers=JSON), 400)


def test_requests_have_limits_and_say_which(web: TestClient) -> None:
    for body, limit in [
        ({"across": "x" * (limits.LONGEST_TEXT + 1)}, f"{limits.LONGEST_TEXT:,}"),
        ({"at": {"x" * (limits.LONGEST_TEXT + 1): 1}}, f"{limits.LONGEST_TEXT:,}"),
        ({"at": [0] * limits.MOST_VALUES}, f"{limits.MOST_VALUES:,}"),
    ]:
        assert limit in said(web.post("/api/studies/lab/map", json=body), 413)
    deep = '{"at":' + "[" * (limits.DEEPEST + 1) + "]" * (limits.DEEPEST + 1) + "}"
    for content in (deep, "[" * 100_000):
        assert "levels" in said(web.post("/api/studies/lab/map", content=content, headers=JSON), 400)
    for length, status in ((limits.LONGEST_NOTE, 200), (limits.LONGEST_NOTE + 1, 422)):
        answer = web.post("/api/studies/lab/trials/1/note", json={"text": "x" * length})
        assert answer.status_code == status


def test_a_form_of_thousands_of_limits_is_refused(web: TestClient) -> None:
    rows = [{"name": f"l{k}", "formula": f"strength <= {k}"} for k in range(3000)]
    refused = web.post("/api/check", json={**FORM, "limits": rows}).json()
    assert "at most 1,000 are possible" in refused["error"]
    assert "larger than" in said(web.post("/api/check", json={**FORM, "limits": rows * 7}), 413)


@pytest.mark.parametrize("name", ["..", "a/..", "a\\..", ".", "/", "", "\0.csv", "x" * 300, "é" * 300, "'\"\r\n.csv"])
def test_a_table_may_have_any_name(web: TestClient, name: str) -> None:
    answer = web.post("/api/studies/lab/table", params={"name": name}, content=f"{HEAD}65,3,0.45,0.01\n")
    assert answer.json()["said"] == "1 row added"
    assert "2,000" in said(web.post("/api/studies/lab/table", params={"name": "x" * 2001}, content=HEAD), 422)


@pytest.mark.parametrize("column", ["", "trial,"])
def test_a_table_of_too_many_rows_is_refused_before_they_are_checked(web: TestClient, lab: Path, column: str) -> None:
    cell = column and "1,"
    rows = f"{column}{HEAD}{cell}nonsense,1,1,1\n" + f"{cell}70,1,0.4,0.02\n" * tables.MOST_ROWS
    refusal = "x.csv has 10,001 rows; at most 10,000 are taken at once"
    assert refusal in said(web.post("/api/studies/lab/table?name=x.csv", content=rows), 422)
    (lab / "x.csv").write_text(rows)
    command = ("tell", "lab.toml", "--from", "x.csv") if column else ("add", "lab.toml", "x.csv")
    assert refusal in " ".join(pied_(*command, code=2).stderr.split())


# ------------------------------------------------------------------------------------------------------- Excel files

SHEET = "xl/worksheets/sheet1.xml"


def book(sheet: str = "", **parts: str) -> bytes:
    """Return an Excel file with this text in the place of its sheet's rows."""
    openpyxl = pytest.importorskip("openpyxl")
    plain, made = io.BytesIO(), io.BytesIO()
    openpyxl.Workbook().save(plain)
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    own = {SHEET: f"<worksheet {main}><sheetData>{sheet}</sheetData></worksheet>", **parts}
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in dict.fromkeys([*old.namelist(), *own]):
            new.writestr(name, own.get(name) or old.read(name))
    return made.getvalue()


@pytest.mark.parametrize(
    ("sheet", "limit"),
    [
        ("<row>" + "<c/>" * 20_000 + "</row>", "a row of more than 10,000 cells"),
        (("<row>" + "<c/>" * 9_000 + "</row>") * 40, "more than 300,000 cells"),
        ("<row>" + "<x/>" * 1_000_000 + "</row>", "more than 300,000 cells"),
        ('<row r="999999999"><c/></row>', "more than 300,000 cells"),
        (" " * 50_000_001, "more than 50,000,000 bytes unpacked"),
    ],
)
def test_an_excel_file_that_would_fill_the_memory_is_refused(sheet: str, limit: str) -> None:
    content = book(sheet)
    assert len(content) < 100_000  # it looks small
    with pytest.raises(StatementError, match=f"x.xlsx has {limit}"):
        Table.of(content, "x.xlsx")


def test_an_excel_file_is_as_large_as_its_cells_whatever_it_says() -> None:
    row = '<row r="3"><c r="B3" t="str"><v>a</v></c><c r="XFD3"/></row><row r="9"><c r="B9"><v>2</v></c></row>'
    content = book(**{SHEET: book_sheet('<dimension ref="A1:XFD1048576"/>', row)})
    with pytest.raises(StatementError, match="a column has no name"):  # column A is empty
        Table.of(content, "x.xlsx")


def book_sheet(before: str, rows: str) -> str:
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    return f"<worksheet {main}>{before}<sheetData>{rows}</sheetData></worksheet>"


@pytest.mark.parametrize("sheet", ["<row><c t='s'><v>99</v></c></row>", "<row><c t='d'><v>x</v></c></row>", "<row>",
                                   "<row><c r='ZZZZZZ1'/></row>", "<row><c><v>x</v></c></row>"])  # fmt: skip
def test_a_damaged_excel_file_is_refused(web: TestClient, sheet: str) -> None:
    answer = web.post("/api/studies/lab/table?name=x.xlsx", content=book(sheet))
    assert "the table 'x.xlsx' cannot be read as an Excel file" in said(answer, 422)


# ------------------------------------------------------------------------------------------------------- a full disk


@pytest.mark.skipif(os.name == "nt", reason="there are no limits of file sizes")
def test_a_new_study_that_cannot_be_written_leaves_no_half_a_file(web: TestClient, lab: Path) -> None:
    with full_disk():
        answer = web.post("/api/studies", content=json.dumps(FORM), headers=JSON)
    assert "the disk of the server is full" in said(answer, 507)
    assert not (lab / "brew.toml").exists()


def test_a_file_whose_name_is_no_text_is_shown(lab: Path) -> None:
    name = os.fsdecode(b"odd\xff.toml")
    try:
        (lab / name).write_text((lab / "lab.toml").read_text())
    except OSError:
        pytest.skip("this file system has only names that are text")
    web = client(lab)
    assert {each["id"] for each in web.get("/api/studies").json()} == {"lab", "odd"}
    assert web.get("/api/studies/odd").status_code == 200
