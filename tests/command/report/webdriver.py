# SPDX-License-Identifier: Apache-2.0
"""A browser to test with: Chromium without a window, driven by chromedriver over W3C WebDriver on loopback."""

import base64
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # what the standard calls an element


def missing():
    """The programs that are not there."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    """One window. `close` ends the browser and its driver."""

    def __init__(self, width=1400, height=1000, dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix="browser")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                port = found[1]
                break
        if port is None:
            raise RuntimeError("chromedriver did not start")
        self.base = f"http://127.0.0.1:{port}"
        # Root, as CI is, has no sandbox; what is opened are pages of tests.
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                     "--hide-scrollbars", f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}"]
        if dark:
            arguments.append("--force-dark-mode")  # prefers-color-scheme: dark
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
                                        "goog:loggingPrefs": {"browser": "ALL"}}}
        try:
            self.base += "/session/" + self.call("POST", "/session", {"capabilities": capabilities})["sessionId"]
        except BaseException:
            self.driver.kill()
            raise

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.loads(error.read())["value"]["message"]) from None

    def open(self, address):
        self.call("POST", "/url", {"url": address.resolve().as_uri() if isinstance(address, pathlib.Path) else address})

    def run(self, script, *arguments):
        """What a function's body returns in the page."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, seconds=30):
        """The value of an expression once it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := self.run(f"return {script};", *arguments):
                return value
            time.sleep(0.05)
        raise AssertionError(f"not true within {seconds} s: {script}; the page says {self.errors()}")

    def element(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})

    def drag(self, element, start, end, shift=False):
        """Moves the pressed pointer between two places, each from the element's middle."""
        moves = [{"type": "pointerMove", "duration": 0, "origin": element, "x": start[0], "y": start[1]}, {"type": "pointerDown", "button": 0}]
        moves += [{"type": "pointerMove", "duration": 30, "origin": element, "x": int(start[0] + share * (end[0] - start[0])),
                   "y": int(start[1] + share * (end[1] - start[1]))} for share in (0.3, 0.6, 1.0)]
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [*moves, {"type": "pointerUp", "button": 0}]}]
        if shift:
            pauses = [{"type": "pause"}] * (len(moves) - 1)
            actions.insert(0, {"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": "\ue008"}, *pauses, {"type": "keyUp", "value": "\ue008"}]})
        self.call("POST", "/actions", {"actions": actions})

    def hold(self, element, start, end, ends=False):
        """Presses the pointer at one place and moves it to another; or, with `ends`, moves on with it and lets it go."""
        move = lambda place: {"type": "pointerMove", "duration": 0, "origin": element, "x": place[0], "y": place[1]}  # noqa: E731
        actions = [move(start), move(end), {"type": "pointerUp", "button": 0}] if ends else [move(start), {"type": "pointerDown", "button": 0}, move(end)]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]})

    def point(self, element, place=(0, 0), clicks=0):
        moves = [{"type": "pointerMove", "duration": 0, "origin": element, "x": place[0], "y": place[1]}]
        moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] * clicks
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]})

    def press(self, element, keys):
        self.call("POST", f"/element/{element[ELEMENT]}/value", {"text": keys})

    def errors(self):
        """What the console has of errors since it was asked last."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def shoot(self, path, selector=None):
        """A picture of the window, or of an element."""
        at = f"/element/{self.element(selector)[ELEMENT]}/screenshot" if selector else "/screenshot"
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", at)))

    def resize(self, width, height):
        self.call("POST", "/window/rect", {"width": width, "height": height})

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            self.driver.stdout.close()
            self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
