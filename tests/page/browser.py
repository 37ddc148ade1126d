"""A headless Chromium, driven by Selenium: what the tests of pages, bench/page and the pictures of the documentation do with one."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
from collections.abc import Callable

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.mouse_button import MouseButton
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

KEYS = {
    "Backspace": Keys.BACKSPACE, "Tab": Keys.TAB, "Enter": Keys.ENTER, "Shift": Keys.SHIFT, "Escape": Keys.ESCAPE,
    "Left": Keys.ARROW_LEFT, "Up": Keys.ARROW_UP, "Right": Keys.ARROW_RIGHT, "Down": Keys.ARROW_DOWN,
}  # fmt: skip

# One thing that a mouse does.
Step = Callable[[PointerInput], None]


def move(x: float, y: float, ms: int = 0) -> Step:
    """Moves the mouse to a place of the window, within a time."""
    return lambda mouse: mouse.create_pointer_move(duration=ms, x=round(x), y=round(y))


def press(mouse: PointerInput) -> None:
    """Presses the left button."""
    mouse.create_pointer_down(button=MouseButton.LEFT)


def release(mouse: PointerInput) -> None:
    """Releases the left button."""
    mouse.create_pointer_up(MouseButton.LEFT)


class Browser:
    """One window. To be used with `with`. With `network`, it keeps which addresses its pages ask for."""

    def __init__(self, width: int, height: int, dark: bool = False, network: bool = False):
        self.opened: set[str] = set()
        options = webdriver.ChromeOptions()
        for flag in (
            "--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
            "--disable-dev-shm-usage", f"--window-size={width},{height}",
        ):  # fmt: skip
            options.add_argument(flag)
        if os.geteuid() == 0:
            # Chromium's sandbox does not work for root.
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", **({"performance": "ALL"} if network else {})})
        # Named, since Selenium would look for a driver on the network otherwise.
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            self.emulate(width, height, dark)
            if network:
                # a new window's own page fetches much
                self.driver.get("about:blank")
                self.requests()
        except BaseException:
            self.driver.quit()
            raise

    def emulate(self, width: int, height: int, dark: bool) -> None:
        """Windows have a least width; a phone is narrower than it. Headless Chromium has no theme of the system's."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def devtools(self, command: str, params: dict) -> dict:
        return self.driver.execute_cdp_cmd(command, params)

    def open(self, path: str) -> None:
        url = pathlib.Path(path).resolve().as_uri()
        self.opened.add(url)
        self.driver.get(url)

    def js(self, script: str, *args: object):
        return self.driver.execute_script(script, *args)

    def settle(self) -> None:
        """Waits until all that was asked for is drawn: twice a frame, for the first may be under way."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def wait_until_drawn(self) -> None:
        """Waits until the page says that all is drawn, once more after a change."""
        self.settle()
        drawn = "return document.documentElement.dataset.drawnMs > 0"
        WebDriverWait(self.driver, 300, poll_frequency=0.02).until(lambda driver: driver.execute_script(drawn))

    def text(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0]).innerText", selector)

    def box(self, selector: str) -> dict:
        """Where an element is in the window, once it is scrolled into view."""
        return self.js(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return {x: b.x, y: b.y, width: b.width, height: b.height}",
            selector,
        )

    def mouse(self, *steps: Step) -> None:
        actions = ActionBuilder(self.driver)
        for step in steps:
            step(actions.pointer_action.source)
        actions.perform()
        self.settle()

    def drag(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.mouse(move(x1, y1), press, move((x1 + x2) / 2, y2, 50), move(x2, y2, 50), release)

    def click(self, x: float, y: float, times: int = 1) -> None:
        self.mouse(move(x, y), *([press, release] * times))

    def keys(self, *names: str, held: str | None = None) -> None:
        actions = ActionBuilder(self.driver)
        keyboard = actions.key_action
        if held:
            keyboard.key_down(KEYS[held])
        for name in names:
            keyboard.key_down(KEYS.get(name, name)).key_up(KEYS.get(name, name))
        if held:
            keyboard.key_up(KEYS[held])
        actions.perform()
        self.settle()

    def console(self) -> list[str]:
        """The complaints of the page since the last time."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page asked for since the last time, its own too; of a Browser with `network`."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: str, box: list[float] | None = None, scale: float = 1) -> None:
        """The whole page, also the part below the window; or a box of it. Scaled."""
        if box:
            left, top, right, bottom = box
        else:
            size = self.devtools("Page.getLayoutMetrics", {})["cssContentSize"]
            left, top, right, bottom = 0, 0, size["width"], size["height"]
        clip = {"x": left, "y": top, "width": right - left, "height": bottom - top, "scale": scale}
        shot = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
