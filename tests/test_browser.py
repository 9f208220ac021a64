"""The dashboard in a real browser: Debian's Chromium by Selenium. Without a browser these tests are skipped."""

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
webdriver = pytest.importorskip("selenium.webdriver")
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    pytest.skip("no browser: apt-get install chromium chromium-driver", allow_module_level=True)
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

from pied.shell.opening import opened  # noqa: E402
from pied.suite.applied import williams_otto  # noqa: E402
from pied.web.command import prepared  # noqa: E402
from pied.web.demo import prepare  # noqa: E402
from pied.web.server import listening, serving  # noqa: E402
from shells import LAB  # noqa: E402

pytestmark = pytest.mark.slow
AXE = (Path(__file__).parent / "data" / "axe.min.js").read_text(encoding="utf-8")
"""axe-core 4.14.1, https://github.com/dequelabs/axe-core, under the MPL 2.0."""
EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


LONG = """
maximize = "price_of_the_product_in_the_contract_of_the_next_year*yield_after_the_second_distillation_column - 0.1*a"
unit = "thousand EUR per shift and line"
solver = "random"
[variables]
a = { lo = 0, hi = 123456.789, unit = "standard cubic metres per hour" }
temperature_of_the_jacket_of_the_first_reactor = { lo = 1e-7, hi = 1e-2, log = true, unit = "mol/(L*s)" }
"<script>document.title='hacked'</script>" = { choices = ["<b>x</b>", "a solvent with a long name", "c"] }
[outputs]
yield_after_the_second_distillation_column = { unit = "kg/kg" }
impurity = {}
[subject_to]
"<img src=x onerror=alert(1)> of the authority, section 17, paragraph 4, as amended" = "impurity <= 0.5"
[constants]
price_of_the_product_in_the_contract_of_the_next_year = 17.5
[study]
seed = 0
"""
"""Names that are long, or HTML; a power of ten; labels."""


FRONT = """
maximize = { gain = "1 - near - b" }
minimize = { cost = "far + b" }
[variables]
a = [0, 1]
b = [0, 1]
[outputs]
near = { noise = 0 }
far = { noise = 0 }
[subject_to]
enough = "a >= 0.3"
[study]
seed = 0
"""
"""Two objectives; with b = 0 all points between a = 0.3 and 0.8 are best trade-offs."""


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
    (place / "long.toml").write_text(LONG)
    with opened(str(place / "long.toml"), None, worker=EVIL) as desk:
        for k in range(4):
            x = dict(
                zip(
                    desk.stated.problem.variables, (30000.0 * k, 10.0 ** (k - 7), ("<b>x</b>", "c")[k % 2]), strict=True
                )
            )
            desk.study.add(x, dict(zip(desk.stated.problem.outputs, (1e5 * k, 0.1 * k), strict=True)))
        desk.study.ask()
    (place / "front.toml").write_text(FRONT)
    with opened(str(place / "front.toml"), None, worker="me") as desk:
        for a, b in [(0.3, 0.0), (0.4, 0.0), (0.5, 0.0), (0.65, 0.0), (0.8, 0.0), (0.6, 0.5), (0.1, 0.2)]:
            desk.study.add({"a": a, "b": b}, {"near": (a - 0.8) ** 2, "far": (a - 0.2) ** 2})
    return place


@contextlib.contextmanager
def served(folder: Path, *files: str, store: str | None = None) -> Iterator[str]:
    """Serve a dashboard of a folder; give its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("PIED_STORE", raising=False)
        patch.delenv("PIED_TOKEN", raising=False)
        place = listening("127.0.0.1", 0)
        app, address = prepared(files, store, "127.0.0.1", place.getsockname()[1], False)
        with serving(app, place):
            yield address


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder, *(str(folder / f"{name}.toml") for name in ("reactor", "long", "front"))) as address:
        yield address


class Browser:
    """A page, and what a person does with it."""

    def __init__(self, address: str, shows: str = "reactor") -> None:
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
            options.add_argument(word)
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.base = address.partition("?")[0]
        self.driver.get(address)
        self.until(lambda: shows in self.text())
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
            with contextlib.suppress(StaleElementReferenceException, NoSuchElementException):
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

    def violations(self) -> list[str]:
        """What axe-core finds: names, contrast, headings, keyboard."""
        if not self.driver.execute_script("return Boolean(window.axe)"):
            self.driver.execute_script(AXE)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then((found) =>"
            " done(found.violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html}`))))"
        )
        return [str(each) for each in found]

    def complaints(self) -> list[str]:
        """Errors of the console, and requests that left this machine."""
        said = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                said += [] if url.startswith(("http://127.0.0.1:", "data:", "about:", "chrome:", "blob:")) else [url]
        return said


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    try:
        made = Browser(address)
    except Exception as error:  # a container without what Chromium needs
        pytest.skip(f"the browser does not start: {error}")
    yield made
    made.driver.quit()


TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
NARROW = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


def test_every_page_shows_without_an_error_also_on_a_narrow_screen(browser: Browser) -> None:
    for number, (page, words) in enumerate({
        "#/": "reactor", "#/new": "New study", "#/api": "GET /api/studies/{study}/result",
        "#/s/reactor/overview": "Recommended settings", "#/s/reactor/trials?open=2&sort=value": "11 of 11 trials",
        "#/s/reactor/question": "It is understood as",
        "#/s/reactor/understand": "Predicted against measured", "#/s/reactor/what-if": "Scenarios side by side",
        "#/s/reactor/work": "Ask what to measure next",
        "#/s/long/overview": "Recommended settings", "#/s/long/trials": "5 of 5 trials",
        "#/s/long/understand": "Predicted against measured", "#/s/long/what-if": "Scenarios side by side",
        "#/s/long/work": "Ask what to measure next",
        "#/s/front/overview": "best trade-offs", "#/s/front/what-if": "several objectives",
    }.items()):  # fmt: skip
        browser.driver.execute_script(
            "document.documentElement.dataset.theme = arguments[0]", ("light", "dark")[number % 2]
        )
        browser.go(page)
        browser.until(lambda words=words: words in browser.text() and "Computing" not in browser.text())
        assert browser.violations() == [], page
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
        browser.until(lambda: browser.driver.execute_script(TOO_WIDE) <= 1)
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert not browser.driver.find_elements(By.CSS_SELECTOR, "main img, main script, main b")
    assert browser.driver.title != "hacked"
    assert browser.complaints() == []  # of the console, and requests that left the machine


def test_a_point_of_a_front_is_chosen_by_pointer_and_by_keyboard(browser: Browser) -> None:
    browser.go("#/s/front/overview")
    browser.until(lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, "#front [role=radio]")) == 5)
    shown = "return document.querySelector('#front .point').innerText"
    browser.one("#front [aria-checked=true]").send_keys(Keys.HOME)  # the least gain, and the least cost
    browser.until(lambda: "0.75" in browser.driver.execute_script(shown))
    assert "Trial 1" in browser.driver.execute_script(shown)
    assert "at least 0.3: met" in browser.driver.execute_script(shown)
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()  # the chosen point has the focus
    browser.until(lambda: "Trial 2" in browser.driver.execute_script(shown))
    browser.driver.execute_script(
        "document.querySelector('#front [data-trial=\"5\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    browser.until(lambda: "Trial 5" in browser.driver.execute_script(shown))
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#front [role=radio][tabindex='0']")) == 1
    browser.click("#front button")  # show what lies far from the front, too
    browser.until(lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, "#front .other, #front .broken")) == 2)
    assert "gain 1" in str(browser.one("#front [aria-checked=true]").get_attribute("aria-label"))
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "main img, main script")


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


DROP = """
const table = new DataTransfer(), zone = document.querySelector(arguments[1]);
table.items.add(new File([arguments[0]], 'more.csv', { type: 'text/csv' }));
for (const kind of ['dragenter', 'dragover', 'drop'])
  zone.dispatchEvent(new DragEvent(kind, { dataTransfer: table, bubbles: true, cancelable: true }));
"""
"""Drop a text onto the page as the file more.csv."""


def row_of(**x: float) -> str:
    y = williams_otto(**x)
    return ",".join(str(each) for each in (*x.values(), *(y[name] for name in ("X_A", "X_G", "X_P", "X_E"))))


def test_a_table_is_added_by_dropping_it_and_by_choosing_it(browser: Browser, folder: Path) -> None:
    head = "F_B,T_r,X_A,X_G,X_P,X_E\n"
    browser.go("#/s/reactor/work")
    browser.one(".drop")
    browser.driver.execute_script(DROP, head + row_of(F_B=4.7, T_r=84.0), ".drop")
    browser.until(lambda: "1 row added" in browser.text())
    browser.go("#/s/reactor/overview")
    browser.go("#/s/reactor/work")
    (folder / "more.csv").write_text(head + row_of(F_B=4.9, T_r=86.0))
    browser.press("#table", str(folder / "more.csv"))
    browser.until(lambda: "1 row added" in browser.text())
    browser.one(".drop")
    browser.driver.execute_script(DROP, "F_B,T_r,X_A\n4.7,much,1\n", "h1")  # beside the place for it
    browser.until(lambda: "much" in browser.one(".drop .error").text)  # refused, in the words of the shell


def test_a_table_that_is_dropped_while_another_is_added_waits_for_its_turn(browser: Browser) -> None:
    browser.go("#/s/reactor/work")
    browser.one(".drop")
    browser.driver.execute_script(
        "window.sent = 0; const real = window.fetch;"
        "window.fetch = (path, ...more) => { window.sent += path.includes('/table'); return real(path, ...more); };"
    )
    table = "F_B,T_r,X_A,X_G,X_P,X_E\n" + row_of(F_B=5.1, T_r=87.0)
    browser.driver.execute_script(f"{{ {DROP} }} {{ {DROP} }}", table, ".drop")
    browser.until(lambda: "1 row added" in browser.text())
    assert browser.driver.execute_script("return window.sent") == 1
    assert browser.one("#table").is_enabled()


def test_by_the_keyboard_alone_from_the_list_to_a_told_value(browser: Browser) -> None:
    driver = browser.driver

    def tab_to(what: str) -> Any:
        """Press Tab until the focus is on an element; it must be visible there."""
        for _ in range(150):
            focused = driver.switch_to.active_element
            if focused.tag_name != "body" and driver.execute_script(
                "return arguments[0].matches(arguments[1])", focused, what
            ):
                assert driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused) != "none"
                return focused
            ActionChains(driver).send_keys(Keys.TAB).perform()
        raise AssertionError(f"the focus never came to {what}")

    driver.get("about:blank")
    driver.get(f"{browser.base}#/")
    browser.until(lambda: "reactor" in browser.text())
    tab_to("a[href='#/s/reactor/overview']").send_keys(Keys.ENTER)
    browser.until(lambda: "Recommended settings" in browser.text())
    tab_to("nav a[href='#/s/reactor/work']").send_keys(Keys.ENTER)
    browser.until(lambda: browser.driver.find_elements(By.ID, "ask"))
    tab_to("#ask").send_keys(Keys.ENTER)
    browser.until(lambda: driver.find_elements(By.CSS_SELECTOR, "form[data-trial]"))
    number = browser.one("form[data-trial]").get_attribute("data-trial")
    tab_to(f"form[data-trial='{number}'] [name=X_P]").send_keys("0.1", Keys.ENTER)
    browser.until(lambda: "X_P = 0.1" in browser.one(f"form[data-trial='{number}']").text)


def test_a_study_of_a_postgresql_store_is_asked_and_told_while_a_shell_writes(
    browser: Browser, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    name = f"lab{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{name}.toml").write_text(LAB)
    with opened(str(tmp_path / f"{name}.toml"), server, worker="shell") as desk:
        desk.study.ask()
    driver, first = browser.driver, browser.driver.current_window_handle
    with served(tmp_path, store=server) as address:
        driver.switch_to.new_window("tab")
        driver.get(address)
        browser.until(lambda: name in browser.text())
        browser.go(f"#/s/{name}/work")
        browser.type("form[data-trial='1'] [name=product]", "0.6")
        browser.type("form[data-trial='1'] [name=impurity]", "0.05")
        browser.press("form[data-trial='1'] [name=impurity]", Keys.ENTER)
        browser.until(lambda: "No trial is open" in browser.text())
        with opened(str(tmp_path / f"{name}.toml"), server, worker="shell") as desk:
            assert desk.study.trials[0].y == {"product": 0.6, "impurity": 0.05}
            desk.study.ask()  # the page follows
        browser.one("form[data-trial='2']")
        driver.close()
        driver.switch_to.window(first)


OLD = "time,bean,strength,acid\n2,arabica,3.1,0.21\n5,robusta,6.4,0.48\n8,arabica,7.9,0.71\n6,arabica,6.6,0.5\n"
"""What was measured before."""


def test_a_chemists_first_day(browser: Browser, folder: Path) -> None:
    driver = browser.driver
    browser.go("#/new")  # a form, with a slip in a formula
    browser.type("[name=name]", "coffee")
    browser.type("[name=objective]", "price*strenght - 0.1*time")
    first, second = driver.find_elements(By.CSS_SELECTOR, "[data-part=variables] .formrow")
    for place, text in zip(first.find_elements(By.TAG_NAME, "input"), ["time", "1", "9", "min", "0.5"], strict=False):
        place.send_keys(text)
    Select(second.find_element(By.TAG_NAME, "select")).select_by_value("choice")
    second = driver.find_elements(By.CSS_SELECTOR, "[data-part=variables] .formrow")[1]
    for place, text in zip(second.find_elements(By.TAG_NAME, "input"), ["bean", "arabica; robusta"], strict=False):
        place.send_keys(text)
    browser.type("[name=output]", "strength")
    browser.click("[data-part=outputs] .formrow + button")
    browser.until(lambda: len(driver.find_elements(By.CSS_SELECTOR, "[name=output]")) == 2)
    driver.switch_to.active_element.send_keys("acid")
    for part, texts in {"limits": ["mild", "acid <= 0.6"], "constants": ["price", "3"]}.items():
        inputs = driver.find_elements(By.CSS_SELECTOR, f"[data-part={part}] input")
        for place, text in zip(inputs, texts, strict=False):
            place.send_keys(text)
    browser.until(lambda: "Did you mean 'strength'" in browser.one("[data-part=goals] .beside").text)
    assert browser.one("[name=objective]").get_attribute("aria-invalid") == "true"
    assert not browser.one("#create").is_enabled()
    browser.type("[name=objective]", "price*strength - 0.1*time")
    browser.until(lambda: browser.one("#create").is_enabled())
    browser.click("#create")
    browser.until(lambda: "No trial is open" in browser.text())
    browser.one(".drop")  # a table of older data
    driver.execute_script(DROP, OLD, ".drop")
    browser.until(lambda: "4 rows added" in browser.text())
    browser.click("#ask")
    browser.type("form[data-trial='5'] [name=strength]", "62")  # a mistake: the point is missing
    browser.type("form[data-trial='5'] [name=acid]", "0.45")
    browser.press("form[data-trial='5'] [name=acid]", Keys.ENTER)
    browser.until(lambda: "No trial is open" in browser.text())
    browser.type("[name='right-strength']", "6.2")  # its correction
    browser.type("[aria-label='The reason']", "point missing")
    browser.press("#correct", Keys.ENTER)
    browser.go("#/s/coffee/trials?sort=value")
    browser.until(lambda: "point missing" in browser.text())
    browser.click("[data-key='row 5']")
    browser.until(lambda: "told: strength = 62" in browser.one(".detail").text)
    assert "open=5" in driver.current_url  # an address that can be sent around
    browser.go("#/s/coffee/what-if")
    browser.until(lambda: "nothing is written" in browser.text() and "Computing" not in browser.text())
    before = browser.one("#now strong").text
    browser.press("#s-constants-price", Keys.PAGE_UP)
    browser.until(lambda: "estimate" not in browser.one("#now").text and browser.one("#now strong").text != before)
    assert "price = 3\n" in (folder / "coffee.toml").read_text()
    browser.go("#/s/coffee/question")  # beans of a third kind, from now on
    labels = "[data-part=variables] .formrow:nth-of-type(2) input.formula"
    browser.press(labels, "; liberica")
    browser.type("[aria-label='Why the question changes']", "a new supplier")
    browser.until(
        lambda: (
            browser.one("#revise").is_enabled()
            and "liberica" in str(browser.one("#preview").get_attribute("textContent"))
        )
    )
    browser.click("#revise")
    browser.until(lambda: "question 2" in browser.text())
    assert '"liberica"' in (folder / "coffee.toml").read_text()
    told = "const done = arguments[0]; fetch('/api/studies/coffee/report.html').then((r) => r.text()).then(done)"
    driver.set_script_timeout(60)
    assert "point missing" in driver.execute_async_script(told)
    assert [each for each in browser.complaints() if "422" not in each] == []


def test_asking_the_question_makes_it_the_studys(browser: Browser, folder: Path) -> None:
    browser.go("#/s/reactor/what-if")
    browser.type(".slider input[aria-label='price_P, as a number']", "1200")
    browser.type("[aria-label='Why the question changes']", "new contract")
    browser.click("#ask-question")
    browser.until(lambda: "question 2" in browser.text())
    assert "price_P = 1200.0" in (folder / "reactor.toml").read_text()
    assert [each for each in browser.complaints() if "422" not in each] == []
