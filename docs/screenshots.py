"""Make the pictures of the dashboard in docs/images from the demo study: python docs/screenshots.py [FOLDER [PAGE ...]]

Needs Chromium with its driver and `pip install selenium`.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from pied.web.command import prepared
from pied.web.demo import evaluate, prepare
from pied.web.server import listening, serving

IMAGES = Path(__file__).parent / "images"
BUDGET = 14
"""Trials of the demo study in the pictures: the gap is small and not yet closed."""
PAGES = {"studies": "#/", "overview": "#/s/reactor/overview", "what-if": "#/s/reactor/what-if",
         "understand": "#/s/reactor/understand", "work": "#/s/reactor/work", "trials": "#/s/reactor/trials",
         "form": "#/s/reactor/question", "new": "#/new", "instruments": "#/api",
         "front": "#/s/front/overview"}  # fmt: skip
IN_GUIDES = ["overview", "what-if", "understand", "form", "front"]
PARTS = {"front": "#front", "form": "[data-part=variables]"}
"""Pages of which a guide shows one part."""


def browser(width: int = 1280, height: int = 1000) -> Any:
    """Return a Chromium without a window."""
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                 "--hide-scrollbars", "--force-device-scale-factor=1"):  # fmt: skip
        options.add_argument(word)
    options.binary_location = shutil.which("chromium") or ""
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def ready(driver: Any) -> bool:
    """Tell whether nothing is being loaded or computed any more."""
    text = driver.find_element(By.ID, "page").text
    return bool(text) and "Loading" not in text and "Computing" not in text


def prepare_front(folder: Path) -> Path:
    """Write the question of `docs/guide-decisions.md` with two objectives."""
    one = prepare(folder, seed=1).read_text(encoding="utf-8")
    head, _, rest = one.partition("\nname = ")
    formula = head.partition("maximize = ")[2]
    goals = (
        f'maximize = {{ profit = {formula} }}\nminimize = {{ byproduct = "X_G" }}\nunit = {{ profit = "USD/s" }}\nnoise'
    )
    text = goals + rest.partition("\nnoise")[2].replace('"waste G" = "X_G <= 0.08"\n', "")
    file = folder / "front.toml"
    file.write_text(text, encoding="utf-8")
    return file


def main(folder: Path, pages: list[str], themes: tuple[str, ...]) -> None:
    """Take the pictures."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        files = []
        if "front" in pages:
            files.append(prepare_front(Path(work)))
            evaluate(files[0], BUDGET)
        files.append(prepare(Path(work)))
        evaluate(files[-1], BUDGET)
        place = listening("127.0.0.1", 0)
        app, address = prepared(tuple(map(str, files)), None, "127.0.0.1", place.getsockname()[1], False)
        with serving(app, place):
            driver = browser()
            try:
                driver.get(address)
                for theme in themes:
                    driver.execute_script(f"localStorage.setItem('pied-theme', '{theme}')")
                    for name in pages:
                        driver.set_window_size(1280, 700)
                        driver.get("about:blank")
                        driver.get(address.partition("?")[0] + PAGES[name])
                        WebDriverWait(driver, 30).until(ready)
                        if name == "what-if":  # a looser limit on waste
                            slider = driver.find_element(By.ID, "s-limits-waste G")
                            slider.send_keys(*[Keys.PAGE_UP] * 2)
                            WebDriverWait(driver, 30).until(ready)
                            time.sleep(2.0)
                        time.sleep(0.6)
                        height = driver.execute_script("return document.documentElement.scrollHeight")
                        driver.set_window_size(1280, min(max(700, height + 90), 2600))
                        time.sleep(0.4)
                        place = str(folder / f"{name}-{theme}.png")
                        if name in PARTS:
                            driver.find_element(By.CSS_SELECTOR, PARTS[name]).screenshot(place)
                        else:
                            driver.save_screenshot(place)
                for entry in driver.get_log("browser"):
                    print(entry)
            finally:
                driver.quit()


if __name__ == "__main__":
    if len(sys.argv) > 1:  # another folder: to look at
        main(Path(sys.argv[1]), sys.argv[2:] or list(PAGES), ("light", "dark"))
    else:
        main(IMAGES, IN_GUIDES, ("light",))
