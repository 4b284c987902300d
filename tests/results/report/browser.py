"""A real browser for a test: Chromium over its DevTools protocol, with no profile and nothing in the background."""

import asyncio
import base64
import itertools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-port=0", "about:blank",
)  # fmt: skip
PATIENCE_S = 60.0


@dataclass
class Seen:
    """What a page did while it was open."""

    requests: list[str] = field(default_factory=list)
    """Every URL that it asked for."""
    complaints: list[str] = field(default_factory=list)
    """Console errors and warnings, uncaught exceptions, log entries."""
    found: dict[str, Any] = field(default_factory=dict)
    """What the asked expressions gave, by expression."""
    picture: bytes = b""


def look(page: Path, *expressions: str, width: int = 1280, dark: bool = False, whole: bool = False) -> Seen:
    """Open a file, wait until its charts are drawn, evaluate, take a picture."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [CHROMIUM, f"--user-data-dir={profile}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            return asyncio.run(_look(Path(profile), page, expressions, width, dark, whole))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


async def _look(
    profile: Path, page: Path, expressions: tuple[str, ...], width: int, dark: bool, whole: bool
) -> Seen:
    port = await _port(profile)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
            tabs = await reply.json(content_type=None)
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        async with session.ws_connect(address, max_msg_size=0) as socket:
            return await _Tab(socket).look(page, expressions, width, dark, whole)


async def _port(profile: Path) -> str:
    for _ in range(600):
        told = profile / "DevToolsActivePort"
        if told.exists() and told.read_text().strip():
            return told.read_text().splitlines()[0]
        await asyncio.sleep(0.1)
    raise TimeoutError("Chromium did not start")


class _Tab:
    """One page, and everything it says."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._seen = Seen()

    async def look(self, page: Path, expressions: tuple[str, ...], width: int, dark: bool, whole: bool) -> Seen:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._ask(f"{domain}.enable")
        await self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._ask("Emulation.setEmulatedMedia", features=[feature])
        await self._ask("Page.navigate", url=page.resolve().as_uri())
        await self._wait_for("document.documentElement.dataset.charts === 'drawn'")
        await asyncio.sleep(0.5)
        for expression in expressions:
            self._seen.found[expression] = await self.evaluate(expression)
        shot = await self._ask("Page.captureScreenshot", captureBeyondViewport=whole)
        self._seen.picture = base64.b64decode(shot["data"])
        return self._seen

    async def evaluate(self, expression: str) -> Any:
        answer = await self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    async def _wait_for(self, expression: str) -> None:
        for _ in range(300):
            if await self.evaluate(expression):
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"never true: {expression}; {self._seen.complaints}")

    async def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=PATIENCE_S)
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, told = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self._seen.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self._seen.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self._seen.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self._seen.complaints.append(str(told["entry"]))
