"""A headless Chromium, spoken to in the DevTools protocol: enough to look at a page and at what it asks for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
STARTS_WITHIN_S = 30.0


def path() -> str | None:
    """Where the browser is; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One page. ``requested`` are all addresses it asked for, ``complaints`` what the console said, errors and all."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._calls = 0
        self.requested: list[str] = []
        self.complaints: list[str] = []

    async def read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
                continue
            params = told.get("params", {})
            match told["method"]:
                case "Network.requestWillBeSent":
                    self.requested.append(params["request"]["url"])
                case "Log.entryAdded":
                    self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
                case "Runtime.exceptionThrown":
                    self.complaints.append(str(params["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                    self.complaints.append(str(params["args"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = self._calls = self._calls + 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        told = await asyncio.wait_for(future, 30.0)
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.look(width, height, dark)
        await self.call("Page.navigate", url=url)

    async def look(self, width: int, height: int, dark: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def js(self, expression: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str, within_s: float = 20.0) -> None:
        """Wait until the expression holds."""
        try:
            async with asyncio.timeout(within_s):
                while not await self.js(f"Boolean({expression})"):  # noqa: ASYNC110  (the page is another process)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            shown = await self.js("document.body ? document.body.innerText : ''")
            raise AssertionError(f"never true: {expression}\n{shown}\n{self.complaints}") from None

    async def screenshot(self, path: Path, whole: bool = True) -> bytes:
        told = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        picture = base64.b64decode(told["data"])
        await asyncio.to_thread(path.write_bytes, picture)
        return picture


@contextlib.asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """A browser of its own with an empty profile in ``folder``; it reaches nothing but the loopback interface."""
    browser = path()
    assert browser is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage"]
    options += [f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
    log = (folder / "log.txt").open("wb")
    process = await asyncio.create_subprocess_exec(browser, *options, stdout=log, stderr=log, start_new_session=True)
    try:
        port = await _port(folder, process)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                targets = await answer.json()
            url = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
            async with http.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                reader = asyncio.create_task(page.read())
                try:
                    yield page
                finally:
                    reader.cancel()
                    await asyncio.wait({reader})
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the group that this test started
        await process.wait()
        log.close()


async def _port(folder: Path, process: asyncio.subprocess.Process) -> int:
    file = folder / "DevToolsActivePort"
    async with asyncio.timeout(STARTS_WITHIN_S):
        while not (file.exists() and file.read_text(encoding="utf-8").strip()):
            assert process.returncode is None, (folder / "log.txt").read_text(errors="replace")
            await asyncio.sleep(0.05)
    return int(file.read_text(encoding="utf-8").split()[0])
