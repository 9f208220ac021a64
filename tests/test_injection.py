"""Names, notes and files that are scripts stay text: on every page, in every picture and every report."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("selenium")
from selenium.webdriver.common.by import By

from pied.report import page
from pied.shell.opening import opened
from test_browser import Browser, served

pytestmark = pytest.mark.slow
PAYLOADS = (
    "<img src=x onerror=hacked=1>",
    '"><script>hacked=1</script>',
    "'><svg onload=hacked=1>",
    "javascript:hacked=1",
    "</title></style></script><script>hacked=1</script>",
    "--><script>hacked=1</script><!--",
    "]]><script>hacked=1</script>",
    "<a href=javascript:hacked=1 autofocus onfocus=hacked=1>go</a>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    '" onmouseover="hacked=1" autofocus onfocus="hacked=1',
    "{{hacked=1}}${hacked=1}",
    "&lt;img src=x onerror=hacked=1&gt;",
    "$\\frac{<script>hacked=1</script>}$",
)
PAGES = ("overview", "trials", "understand", "what-if", "work")
STRANGE = """
const all = [...document.querySelectorAll('*')];
const isMade = (e) => e.matches('script:not([src]), iframe, object, embed, main img') || e.protocol === 'javascript:'
  || [...e.attributes].some((each) => each.name.startsWith('on'));
return all.filter(isMade).map((each) => each.outerHTML);
"""
"""Elements and attributes that only a payload makes."""


DROP = """
const table = new DataTransfer(), how = { dataTransfer: table, bubbles: true, cancelable: true };
table.items.add(new File([arguments[0]], arguments[1], { type: 'text/csv' }));
for (const kind of ['dragenter', 'dragover', 'drop'])
  document.querySelector('.drop').dispatchEvent(new DragEvent(kind, how));
"""
"""Drop a table of this text and name."""


class Places:
    """Gives each place the next payload, told apart by a number so that all names differ."""

    def __init__(self, first: int) -> None:
        self.first, self.count = first, 0

    def next(self) -> str:
        text = PAYLOADS[(self.first + self.count) % len(PAYLOADS)]
        self.count += 1
        return f"{text} {self.count}"


def statement(places: Places, is_front: bool) -> dict[str, Any]:
    """Return the names of a study as a problem file has them."""
    variable, choice, output, other = (places.next() for _ in range(4))
    constant, objective = places.next(), places.next()
    value = f"`{output}` * `{constant}` - `{variable}`"
    return {
        "file": "\n".join([
            f"solver = 'random'\n[maximize]\n{json.dumps(objective)} = {json.dumps(value)}"
            + (f"\n[minimize]\n{json.dumps(places.next())} = {json.dumps(f'`{other}`')}" if is_front else ""),
            "[variables]",
            f"{json.dumps(variable)} = {{ lo = 0, hi = 1, unit = {json.dumps(places.next())} }}",
            f"{json.dumps(choice)} = {{ choices = {json.dumps([places.next(), places.next()])} }}",
            "[outputs]",
            f"{json.dumps(output)} = {{ unit = {json.dumps(places.next())} }}",
            f"{json.dumps(other)} = {{}}",
            f"[subject_to]\n{json.dumps(places.next())} = {json.dumps(f'`{other}` <= `{constant}`')}",
            f"[constants]\n{json.dumps(constant)} = 2.5",
            f"[study]\nseed = 0\ninitial = 4\nname = {json.dumps(places.next())}",
        ]),
        "variable": variable, "choice": choice, "outputs": (output, other),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("injection")
    for k in range(3):
        places = Places(4 * k)
        found = statement(places, is_front=k == 2)
        file = place / f"study-{k}.toml"
        file.write_text(found["file"])
        with opened(str(file), None, worker=places.next()) as desk:
            labels = list(desk.stated.problem.variables[found["choice"]].labels)
            for j in range(6):
                x = {found["variable"]: j / 5, found["choice"]: labels[j % 2]}
                desk.study.add(x, dict(zip(found["outputs"], (0.3 * j, 0.9 * j), strict=True)))
            desk.study.note(1, places.next())
            desk.study.note(None, places.next())
            desk.study.withdraw(6, why=places.next())
            desk.study.correct(2, {found["outputs"][0]: 0.4}, why=places.next())
            desk.study.fail(desk.study.ask(), places.next())
            desk.study.ask()
            for name, text in {"report": page(desk.study), "study": desk.study._repr_html_(),
                               "result": desk.study.result()._repr_html_()}.items():  # fmt: skip
                (place / f"{name}-{k}.html").write_text(f"<!DOCTYPE html>{text}")
        drawn = re.findall(r"data:image/svg\+xml;base64,([^']+)", (place / f"report-{k}.html").read_text())
        for number, picture in enumerate(drawn):
            (place / f"picture-{number}-{k}.svg").write_bytes(base64.b64decode(picture))
    return place


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with served(folder, *(str(folder / f"study-{k}.toml") for k in range(3))) as address:
        try:
            made = Browser(address, shows="hacked")
        except Exception as error:  # a container without what Chromium needs
            pytest.skip(f"the browser does not start: {error}")
        yield made
        made.driver.quit()


def check(browser: Browser, where: str) -> None:
    """Fail if a payload has become an element, or runs."""
    assert browser.driver.execute_script(STRANGE) == [], where
    assert browser.driver.execute_script("return window.hacked") is None, where


@pytest.mark.parametrize("study", range(3))
def test_nothing_that_a_study_says_becomes_an_element_of_a_page(browser: Browser, study: int) -> None:
    for shown in PAGES:
        browser.go(f"#/s/study-{study}/{shown}")
        browser.until(lambda: "Computing" not in browser.text())
        check(browser, shown)
    browser.go(f"#/s/study-{study}/trials")
    browser.until(lambda: "trials" in browser.text())
    for word in ("hacked", "onerror"):
        assert word in browser.text()  # it is there, as text
    for shown in ("#/", "#/api", "#/new"):
        browser.go(shown)
        check(browser, shown)
    assert [each for each in browser.complaints() if "/api/" not in each] == []  # also no script that was only stopped


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_typed_and_dropped_is_shown_as_text(browser: Browser, payload: str) -> None:
    browser.go("#/s/study-0/work")
    browser.one(".drop")
    name = payload.replace("/", "|") + ".csv"
    browser.driver.execute_script(DROP, f'"{payload.replace(chr(34), chr(34) * 2)}",b\n1,2\n', name)
    browser.until(lambda: ".csv" in browser.one(".drop .error").text)  # refused, with its name
    check(browser, "a dropped table")
    browser.go("#/new")
    for field in ("name", "objective", "called", "output"):
        for place in browser.driver.find_elements(By.CSS_SELECTOR, f"[name={field}]"):
            place.send_keys(payload)
    browser.until(lambda: browser.driver.find_elements(By.CSS_SELECTOR, ".error"))
    check(browser, "the form")
    browser.go(f"#/s/{quote(payload, safe='')}/overview")
    browser.until(lambda: "there is no study" in browser.text() or "nothing at this address" in browser.text())
    check(browser, "an address")


def test_no_file_that_is_written_runs_a_script(browser: Browser, folder: Path) -> None:
    files = sorted([*folder.glob("*.html"), *folder.glob("*.svg")])
    assert len(files) > 15
    for file in files:  # opened from the disk, where no policy forbids anything
        browser.driver.get(file.as_uri())
        assert browser.driver.execute_script("return window.hacked") is None, file.name
        assert browser.driver.execute_script(STRANGE.replace("main img", 'img:not([src^="data:"])')) == [], file.name
