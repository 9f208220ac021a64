"""The dashboard in a real browser: Debian's Chromium by Selenium. Without a browser these tests are skipped."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
webdriver = pytest.importorskip("selenium.webdriver")
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    pytest.skip("no browser: apt-get install chromium chromium-driver", allow_module_level=True)
from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from pied.shell.opening import opened  # noqa: E402
from pied.suite.applied import williams_otto  # noqa: E402
from pied.web.command import prepared  # noqa: E402
from pied.web.demo import prepare  # noqa: E402
from pied.web.server import listening, serving  # noqa: E402

pytestmark = pytest.mark.slow
EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reactor with eleven measurements of older days, one with a note that is a script."""
    place = tmp_path_factory.mktemp("dashboard")
    with opened(str(prepare(place)), None, worker=EVIL) as desk:
        for k in range(11):
            x = {"F_B": 4.1 + 0.26 * k, "T_r": 72.0 + (7 * k) % 27}
            y = williams_otto(**x)
            desk.study.add(x, {name: y[name] for name in desk.stated.problem.outputs})
        desk.study.note(1, EVIL)
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("PIED_STORE", raising=False)
        patch.delenv("PIED_TOKEN", raising=False)
        place = listening("127.0.0.1", 0)
        app, address = prepared((str(folder / "reactor.toml"),), None, "127.0.0.1", place.getsockname()[1], False)
        with serving(app, place):
            yield address


class Browser:
    """A page, and what a person does with it."""

    def __init__(self, address: str) -> None:
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
            options.add_argument(word)
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.base = address.partition("?")[0]
        self.driver.get(address)
        self.until(lambda: "reactor" in self.text())
        assert "token" not in self.driver.current_url

    def go(self, page: str) -> None:
        self.driver.execute_script(
            "const old = location.hash; location.hash = arguments[0];"
            "if (location.hash === old) dispatchEvent(new HashChangeEvent('hashchange'))",
            page,
        )
        time.sleep(0.1)
        self.until(lambda: "Loading" not in self.text() and len(self.text()) > 20)

    def text(self) -> str:
        return str(self.driver.execute_script("return document.getElementById('page')?.innerText || ''"))

    def until(self, is_true: Callable[[], Any], seconds: float = 60) -> None:
        """Wait; what the page draws again while it is looked at is looked at again."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(StaleElementReferenceException):
                if is_true():
                    return
            assert time.monotonic() < end, self.text()[:3000]
            time.sleep(0.1)

    def one(self, what: str) -> Any:
        self.until(lambda: self.driver.find_elements(By.CSS_SELECTOR, what))
        return self.driver.find_element(By.CSS_SELECTOR, what)

    def click(self, what: str) -> None:
        self.until(lambda: self.one(what).click() is None)

    def press(self, what: str, keys: str) -> None:
        self.until(lambda: self.one(what).send_keys(keys) is None)

    def type(self, what: str, text: str) -> None:
        self.until(lambda: self.one(what).clear() is None)
        self.press(what, text)

    def complaints(self) -> list[str]:
        """Errors of the console, and requests that left this machine."""
        said = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                said += [] if url.startswith((self.base, "data:", "about:", "chrome:", "blob:")) else [url]
        return said


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    try:
        made = Browser(address)
    except Exception as error:  # a container without what Chromium needs
        pytest.skip(f"the browser does not start: {error}")
    yield made
    made.driver.quit()


NAMELESS = (
    "return [...document.querySelectorAll('input, select, button, canvas, .chart')].filter(e => !(e.labels?.length"
    " || e.parentElement.closest('[role=img]')"
    " || e.getAttribute('aria-label') || e.innerText?.trim())).map(e => e.outerHTML)"
)
"""What has no name for those who hear the page."""
TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
NARROW = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


def test_every_page_shows_without_an_error_also_on_a_narrow_screen(browser: Browser) -> None:
    for page, words in {
        "#/": "reactor", "#/new": "New study", "#/api": "/api/studies/{study}/ask",
        "#/s/reactor/overview": "Recommended settings", "#/s/reactor/trials": "11 of 11 trials",
        "#/s/reactor/understand": "Predicted against measured", "#/s/reactor/what-if": "Scenarios side by side",
        "#/s/reactor/work": "Ask what to measure next",
    }.items():  # fmt: skip
        browser.go(page)
        browser.until(lambda words=words: words in browser.text() and "Computing" not in browser.text())
        assert browser.driver.execute_script(NAMELESS) == []
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
        browser.until(lambda: browser.driver.execute_script(TOO_WIDE) <= 1)
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert browser.driver.title != "hacked"
    assert browser.complaints() == []  # of the console, and requests that left the machine


def test_stored_text_is_text(browser: Browser) -> None:
    browser.go("#/s/reactor/trials")
    browser.until(lambda: "onerror" in browser.text())
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "main img, main script")
    assert browser.driver.title != "hacked"


def test_a_slider_moves_the_optimum_and_nothing_is_written(browser: Browser, folder: Path) -> None:
    before = (folder / "reactor.toml").read_text()
    browser.go("#/s/reactor/what-if")
    browser.until(lambda: "nothing is written" in browser.text())
    setting = "return document.querySelector('#answer dl').innerText"
    old = browser.driver.execute_script(setting)
    slider = browser.one("[id='s-limits-waste G']")
    for _ in range(3):
        slider.send_keys(Keys.PAGE_UP)  # by the keyboard
    browser.until(lambda: browser.driver.execute_script(setting) != old)
    assert float(browser.one(".slider input[aria-label='X_G ≤, as a number']").get_attribute("value")) > 0.08
    assert (folder / "reactor.toml").read_text() == before


def test_ask_tell_in_part_a_refusal_keeps_what_was_typed_and_another_page_follows(browser: Browser) -> None:
    browser.go("#/s/reactor/work")
    browser.click("#ask")
    browser.one("form[data-trial='12']")
    browser.type("form[data-trial='12'] [name=X_A]", "0.1")
    browser.type("form[data-trial='12'] [name=X_G]", "12 %")
    browser.press("form[data-trial='12'] [name=X_G]", Keys.ENTER)
    browser.until(lambda: "without % or a unit" in browser.text())
    assert browser.one("form[data-trial='12'] [name=X_G]").get_attribute("value") == "12 %"
    browser.type("form[data-trial='12'] [name=X_G]", "0.07")
    driver, first = browser.driver, browser.driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(f"{browser.base}#/s/reactor/trials")
    browser.until(lambda: "12 trials" in browser.text())
    second = driver.current_window_handle
    driver.switch_to.window(first)
    browser.press("form[data-trial='12'] [name=X_G]", Keys.ENTER)
    browser.until(lambda: "X_A = 0.1" in browser.one("form[data-trial='12']").text)
    driver.switch_to.window(second)
    browser.until(lambda: "in part" in browser.text())
    driver.close()
    driver.switch_to.window(first)


def test_a_correction_by_keyboard_is_shown(browser: Browser) -> None:
    browser.go("#/s/reactor/work")
    browser.press("select[aria-label='Which trial']", "trial 3")
    browser.type("[name='right-X_A']", "0.0999")
    browser.type("[aria-label='The reason']", "misread")
    browser.press("#correct", Keys.ENTER)
    browser.go("#/s/reactor/trials")
    browser.until(lambda: "(misread)" in browser.text())


def test_a_dropped_table_is_added(browser: Browser, folder: Path) -> None:
    table = folder / "more.csv"
    y = williams_otto(F_B=4.7, T_r=84.0)
    table.write_text("F_B,T_r,X_A,X_G,X_P,X_E\n4.7,84," + ",".join(str(y[n]) for n in ("X_A", "X_G", "X_P", "X_E")))
    browser.go("#/s/reactor/work")
    browser.press("#table", str(table))
    browser.until(lambda: "1 row added" in browser.text())


def test_from_an_empty_page_to_the_first_proposal(browser: Browser, folder: Path) -> None:
    browser.go("#/new")
    browser.type("[name=name]", "coffee")
    browser.type("[name=objective]", "strenght")
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "[data-part=variables] .formrow")
    for row, (name, low, high) in zip(rows, [("time", "1", "9"), ("heat", "80", "99")], strict=True):
        for place, text in zip(row.find_elements(By.TAG_NAME, "input"), [name, low, high], strict=False):
            place.send_keys(text)
    browser.type("[name=output]", "strength")
    browser.until(lambda: "Did you mean 'strength'" in browser.text())
    assert not browser.one("#create").is_enabled()
    browser.type("[name=objective]", "strength - 0.1*time")
    browser.until(lambda: browser.one("#create").is_enabled())
    browser.click("#create")
    browser.click("#ask")
    browser.one("form[data-trial='1']")
    assert (folder / "coffee.toml").exists()


def test_asking_the_question_makes_it_the_studys(browser: Browser, folder: Path) -> None:
    browser.go("#/s/reactor/what-if")
    browser.type(".slider input[aria-label='price_P, as a number']", "1200")
    browser.type("[aria-label='Why the question changes']", "new contract")
    browser.click("#ask-question")
    browser.until(lambda: "question 2" in browser.text())
    assert "price_P = 1200.0" in (folder / "reactor.toml").read_text()
    assert [each for each in browser.complaints() if "422" not in each] == []
