"""What a dashboard refuses: strangers, other pages, large requests, writing where it may only read, text as markup."""

from pathlib import Path
from typing import Any

import pytest

from shells import data, pied_

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from pied.web import limits
from pied.web.app import STATIC
from test_web import TOKEN, client, post

OWN = {"X-Pied-Token": TOKEN}


@pytest.fixture
def stranger(lab: Path) -> TestClient:
    """A client that does not know the token."""
    made = client(lab, "lab.toml")
    del made.headers["X-Pied-Token"]
    return made


@pytest.mark.parametrize("path", ["/", "/api", "/api/studies", "/static/app.css", "/api/openapi.json", "/nothing"])
def test_nothing_is_answered_without_the_token(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 401
    assert stranger.get(path, headers={"X-Pied-Token": TOKEN[:-1]}).status_code == 401
    assert stranger.get(path, headers={"Cookie": "pied-1=wrong"}).status_code == 401


@pytest.mark.parametrize("headers", [OWN, {"Authorization": f"Bearer {TOKEN}"}, {"Cookie": f"pied-1={TOKEN}"}])
def test_the_token_counts_as_header_and_as_cookie(stranger: TestClient, headers: dict[str, str]) -> None:
    assert stranger.get("/api/studies", headers=headers).status_code == 200


def test_a_token_in_an_address_counts_on_the_first_page_only(stranger: TestClient) -> None:
    assert stranger.get(f"/api/studies?token={TOKEN}").status_code == 401
    first = stranger.get(f"/?token={TOKEN}")
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert stranger.get("/api/studies").status_code == 200  # by the cookie


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:2"},
     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_requests_of_other_pages_are_refused_also_with_the_cookie(stranger: TestClient, headers: Any) -> None:
    sent = {"Cookie": f"pied-1={TOKEN}", **headers}
    answer = stranger.post("/api/studies/lab/ask", json={}, headers=sent)
    assert answer.status_code == 403
    assert not Path("lab.db").exists()


def test_requests_of_our_own_pages_and_of_programs_are_answered(stranger: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-origin", **OWN}
    assert stranger.post("/api/studies/lab/ask", json={}, headers=own).status_code == 200
    assert stranger.post("/api/studies/lab/ask", json={}, headers=OWN).status_code == 200


def test_another_name_of_this_machine_is_refused(stranger: TestClient) -> None:
    assert stranger.get("/api", headers={**OWN, "Host": "rebound.example:1"}).status_code == 403


def test_every_answer_forbids_foreign_scripts_frames_and_referrers(stranger: TestClient) -> None:
    for answer in (stranger.get("/", headers=OWN), stranger.get("/api", headers=OWN), stranger.get("/api")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in policy


def test_large_requests_are_refused_before_they_are_read(stranger: TestClient) -> None:
    answer = stranger.post("/api/studies/lab/ask", content=b" " * (limits.LARGEST_JSON + 1), headers=OWN)
    assert answer.status_code == 413

    def parts() -> Any:  # without a length
        for _ in range(30):
            yield b" " * 100_000

    sent = {**OWN, "Content-Type": "application/json"}
    assert stranger.post("/api/studies/lab/ask", content=parts(), headers=sent).status_code == 413


def test_read_only_cannot_write_but_answers(lab: Path) -> None:
    pied_("ask", "lab.toml")
    before = data("export", "lab.toml")
    web = client(lab, "lab.toml", read_only=True)
    for path in ("ask", "revise", "trials/1/tell", "trials/1/fail", "trials/1/correct", "trials/1/note", "table"):
        assert web.post(f"/api/studies/lab/{path}", json={}).status_code == 403, path
    assert web.post("/api/studies", json={"name": "x"}).status_code == 403
    assert web.get("/api/studies/lab/trials").status_code == 200
    assert data("export", "lab.toml") == before


def test_no_formula_is_evaluated_as_code_and_no_path_leaves_the_folder(lab: Path) -> None:
    web = client(lab)
    for objective in ("__import__('os').system('touch hacked')", "open('hacked', 'w')", "y.__class__"):
        form = {"name": "x", "objective": objective, "variables": [{"name": "a", "lo": 0, "hi": 1}],
                "outputs": [{"name": "y"}]}  # fmt: skip
        assert post(web, "/api/studies", 422, **form)["error"]
    assert not (lab / "hacked").exists()
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2ferrors.py"):
        assert web.get(path).status_code == 404
    done = web.post("/api/studies/nothing/table?name=../../evil.csv", content=b"a\n1\n")
    assert done.status_code == 404


def test_a_form_cannot_write_further_keys_into_its_file(lab: Path) -> None:
    web = client(lab)
    rows = [{"name": "a", "lo": 0, "hi": 1}]
    form = {"name": "x", "objective": 'y"\n[run]\ncommand = "touch hacked', "variables": rows,
            "outputs": [{"name": 'y = {}\n[run]\ncommand = "x"'}]}  # fmt: skip
    web.post("/api/studies", json=form)
    assert not (lab / "x.toml").exists() or "\n[run]" not in (lab / "x.toml").read_text()


def test_pages_never_make_markup_of_text() -> None:
    for file in (STATIC / "js").glob("*.js"):
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")  # what browsers call SVG; nothing is fetched
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http:",
        ):
            assert word not in text, f"{file.name}: {word}"
    page = (STATIC / "index.html").read_text()
    assert "<script>" not in page
    assert "style=" not in page
    assert "http" not in page


def test_the_vendored_library_comes_with_version_and_licence() -> None:
    vendor = STATIC / "vendor"
    assert "MIT" in (vendor / "README.txt").read_text()
    assert "Permission is hereby granted" in (vendor / "uplot-LICENSE.txt").read_text()
    version = (vendor / "README.txt").read_text().split()[1].strip(",")
    assert f"v{version}" in (vendor / "uplot.js").read_text()[:400]
