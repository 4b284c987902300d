"""Locust with its web UI, and a real browser that goes through it."""

import asyncio
import base64
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.results.report.browser import CHROMIUM, FLAGS, PATIENCE_S, _port, _Tab

STUB = Path(__file__).parent / "stub_locustfile.py"
ROOT = Path(__file__).parents[3]
WAITS_S = 60.0
SHOTS = "TOKENLOAD_SHOTS"
"""A folder for pictures of what the browser saw, for people."""


@contextmanager
def locust_ui(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """Locust's UI over the stub; its address. Ends with the block, whatever happens in it."""
    log = folder / "locust.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    told = {**kept, "STUB_FOLDER": str(folder), "PYTHONPATH": str(ROOT), **environment}
    port = free_port()
    command = [
        sys.executable, "-m", "locust", "-f", str(STUB), "--web-host", "127.0.0.1", "--web-port", str(port), *options,
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=told, stdout=output, stderr=output)
    try:
        base = options[options.index("--web-base-path") + 1] if "--web-base-path" in options else ""
        address = f"http://127.0.0.1:{port}{base}/"
        asyncio.run(_answers(address, process, log))
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def free_port() -> int:
    """One that nobody listens on."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(address: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; redirects are not followed."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    try:
        with urllib.request.build_opener(Stay).open(address, timeout=20) as reply:
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


async def _answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(int(WAITS_S * 10)):
        assert process.poll() is None, log.read_text()
        try:
            get(address)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            return
    raise TimeoutError(log.read_text())


class Browser:
    """A tab that is driven."""

    def __init__(self, tab: _Tab) -> None:
        self._tab = tab

    @property
    def complaints(self) -> list[str]:
        """What the console said, and what was not caught."""
        return self._tab._seen.complaints

    @property
    def requests(self) -> list[str]:
        """Every address that was asked."""
        return self._tab._seen.requests

    async def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """In a window of this size."""
        tab = self._tab
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab._ask(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await tab._ask("Emulation.setDeviceMetricsOverride", **size)
        await self.scheme(dark)
        await tab._ask("Page.navigate", url=address)
        await self.until("document.readyState === 'complete'")

    async def scheme(self, dark: bool) -> None:
        """What the browser prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._tab._ask("Emulation.setEmulatedMedia", features=[feature])

    async def ask(self, expression: str) -> Any:
        """What it gives."""
        return await self._tab.evaluate(expression)

    async def until(self, expression: str) -> None:
        """Wait until it is true."""
        await self._tab._wait_for(expression)

    async def click(self, selector: str, text: str = "") -> None:
        """The first element of this selector that has this text, as soon as there is one."""
        begins = f"(one) => one.textContent.trim().startsWith({text!r})"
        found = f"[...document.querySelectorAll({selector!r})].find({begins})"
        await self.until(f"Boolean({found})")
        await self.ask(f"{found}.click()")

    async def shoot(self, name: str) -> None:
        """A picture for people, where somebody asked for pictures."""
        folder = os.environ.get(SHOTS)
        if folder is None:
            return
        metrics = await self._tab._ask("Page.getLayoutMetrics")
        height = min(metrics["cssContentSize"]["height"], 3000)
        clip = {"x": 0, "y": 0, "width": metrics["cssContentSize"]["width"], "height": height, "scale": 1}
        shot = await self._tab._ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def browse(visit: Callable[[Browser], Awaitable[None]]) -> None:
    """Visit with a browser that has no past."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, f"--user-data-dir={profile}", *FLAGS]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            asyncio.run(_visit(Path(profile), visit))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


async def _visit(profile: Path, visit: Callable[[Browser], Awaitable[None]]) -> None:
    port = await _port(profile)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
            tabs = await reply.json(content_type=None)
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        async with session.ws_connect(address, max_msg_size=0) as socket:
            await visit(Browser(_Tab(socket)))
