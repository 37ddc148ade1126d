"""A headless Chromium, driven by plain WebDriver (https://www.w3.org/TR/webdriver2/) over HTTP.

Only what scripts/test-page and bench/page need, so that Python's own library is enough.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

KEYS = {
    "Backspace": "\ue003", "Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Escape": "\ue00c",
    "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015",
}  # fmt: skip


class WebDriverError(Exception):
    """What the driver refused, in its words."""


class Browser:
    """One window. To be used with `with`. With `network`, it keeps what it asks the network for."""

    def __init__(self, width: int, height: int, dark: bool = False, network: bool = False):
        self.opened: set[str] = set()
        self.logs = {"browser": "ALL", **({"performance": "ALL"} if network else {})}
        self.profile = tempfile.TemporaryDirectory(prefix="quell-page-")
        # Port 0: the driver takes a free one and says which.
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.session = None
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            self.session = self._start(width, height)
            self.emulate(width, height, dark)
            if network:
                # a new window's own page fetches much
                self.call("/url", {"url": "about:blank"})
                self.requests()
        except BaseException:
            self.close()
            raise

    def _port(self) -> int:
        for line in self.driver.stdout:
            found = re.search(r"on port (\d+)", line)
            if found and "started successfully" in line:
                return int(found[1])
        raise WebDriverError("chromedriver ended before it was ready")

    def _start(self, width: int, height: int) -> str:
        flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
                 "--disable-dev-shm-usage", f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}"]  # fmt: skip
        if os.geteuid() == 0:
            # Chromium's sandbox does not work for root.
            flags.append("--no-sandbox")
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": self.logs,
        }
        return self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]

    def emulate(self, width: int, height: int, dark: bool) -> None:
        """Windows have a least width; a phone is narrower than it. Headless Chromium has no theme of the system's."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            if self.session:
                self._call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.profile.cleanup()

    def _call(self, method: str, path: str, body: dict | None = None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as err:
            value = json.load(err)["value"]
            raise WebDriverError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def call(self, path: str, body: dict):
        return self._call("POST", f"/session/{self.session}{path}", body)

    def devtools(self, command: str, params: dict):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": params})

    def open(self, path: str) -> None:
        url = pathlib.Path(path).resolve().as_uri()
        self.opened.add(url)
        self.call("/url", {"url": url})

    def js(self, script: str, *args: object):
        return self.call("/execute/sync", {"script": script, "args": list(args)})

    def settle(self) -> None:
        """Waits until what was asked for is drawn: twice a frame, for the first may be under way."""
        self.call(
            "/execute/async",
            {"script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": []},
        )

    def text(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0]).innerText", selector)

    def box(self, selector: str) -> dict:
        """Where an element is in the window, once it is scrolled into view."""
        return self.js(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return {x: b.x, y: b.y, width: b.width, height: b.height}",
            selector,
        )

    def mouse(self, *steps: dict) -> None:
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(steps)}]
        self.call("/actions", {"actions": actions})
        self.settle()

    def drag(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.mouse(move(x1, y1), DOWN, move((x1 + x2) / 2, y2, 50), move(x2, y2, 50), UP)

    def click(self, x: float, y: float, times: int = 1) -> None:
        self.mouse(move(x, y), *([DOWN, UP] * times))

    def keys(self, *names: str, held: str | None = None) -> None:
        actions = [{"type": "keyDown", "value": KEYS[held]}] if held else []
        for name in names:
            key = KEYS.get(name, name)
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        if held:
            actions.append({"type": "keyUp", "value": KEYS[held]})
        self.call("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.settle()

    def console(self) -> list[str]:
        """What the page complained of since the last time."""
        entries = self.call("/se/log", {"type": "browser"})
        return [f"{e['level']}: {e['message']}" for e in entries]

    def requests(self) -> list[str]:
        """What the page asked for since the last time, itself too; of a Browser with `network`."""
        entries = self.call("/se/log", {"type": "performance"})
        events = [json.loads(e["message"])["message"] for e in entries]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: str, box: list[float] | None = None) -> None:
        """The whole page, also what is below the window; or a box of it, at a quarter of its size."""
        if box:
            left, top, right, bottom = box
            clip = {"x": left, "y": top, "width": right - left, "height": bottom - top, "scale": 0.25}
        else:
            size = self.devtools("Page.getLayoutMetrics", {})["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))


DOWN = {"type": "pointerDown", "button": 0}
UP = {"type": "pointerUp", "button": 0}


def move(x: float, y: float, ms: int = 0) -> dict:
    return {"type": "pointerMove", "x": round(x), "y": round(y), "duration": ms}


def wait_for(what, seconds: float = 300):
    """What `what` returns, once that is anything."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise WebDriverError("waited in vain")
