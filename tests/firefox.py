"""A page in Firefox: opened from a file without a window, with all that it complained of.

Firefox comes from the system (`make test-long` installs it) and is driven through Marionette, its
own remote control: lines of "LENGTH:[0, number, command, parameters]" over a socket, answered by
"LENGTH:[1, number, error, result]" (Firefox source docs, Marionette protocol). Playwright drives
only a Firefox of its own.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
WITHOUT = "Firefox is not installed: apt-get install firefox-esr"
WAIT_S = 120
PREFERENCES = {
    "marionette.port": 0,  # a free one, which Firefox writes into its profile
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
COMPLAINTS = """
const storage = Cc["@mozilla.org/consoleAPI-storage;1"].getService(Ci.nsIConsoleAPIStorage);
const said = storage.getEvents().filter(({ filename }) => filename.startsWith("file:"))
  .map(({ level, arguments: words }) => `${level}: ${[...words].join(" ")}`);
const failed = Services.console.getMessageArray().filter((one) => one instanceof Ci.nsIScriptError)
  .filter(({ sourceName }) => sourceName.startsWith("file:")).map((one) => one.errorMessage);
return [...said, ...failed];
"""
"""What the console has of pages that are files: their words, errors and refused requests."""


class Firefox:
    """One page; a context that ends the browser.

    Parameters
    ----------
    path : the page.
    profile : a new folder for the browser.
    """

    def __init__(self, path: Path, profile: Path) -> None:
        assert FIREFOX is not None, WITHOUT
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines))
        command = [FIREFOX, "--headless", "--no-remote", "--marionette"]
        command += ["--remote-allow-system-access", "--profile", str(profile)]
        self.log = (profile / "log").open("wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self._sent = 0
        self._socket = self._connect(profile / "MarionetteActivePort")
        self._answers = self._socket.makefile("rb")
        self._read()  # who it is
        self._ask("WebDriver:NewSession", {"timeouts": {"script": 1000 * WAIT_S}})
        self._ask("WebDriver:Navigate", {"url": path.as_uri()})

    def __enter__(self) -> Firefox:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        self.log.close()

    def _connect(self, port: Path) -> socket.socket:
        end = time.monotonic() + WAIT_S
        while not (port.exists() and port.read_text().strip()):
            assert self.process.poll() is None and time.monotonic() < end, "Firefox did not start"
            time.sleep(0.05)
        return socket.create_connection(("127.0.0.1", int(port.read_text())), WAIT_S)

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._answers.read(1)
        return json.loads(self._answers.read(int(length[:-1])))

    def _ask(self, command: str, parameters: dict[str, Any]) -> Any:
        self._sent += 1
        text = json.dumps([0, self._sent, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def run(self, script: str, arguments: Sequence[Any] = (), *, of: str = "content") -> Any:
        """What a script returns; `of` the page, or of "chrome", the browser itself."""
        self._ask("Marionette:SetContext", {"value": of})
        asked = {"script": script, "args": list(arguments), "sandbox": None}
        return self._ask("WebDriver:ExecuteScript", asked)["value"]

    def until(self, what: str) -> None:
        """Waits until an expression of the page is true."""
        end = time.monotonic() + WAIT_S
        while not self.run(f"return {what};"):
            assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
            time.sleep(0.05)

    @property
    def troubles(self) -> list[str]:
        """What pages complained of so far."""
        found: list[str] = self.run(COMPLAINTS, of="chrome")
        return found
