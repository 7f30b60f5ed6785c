"""Run folders as talks leave them, and the page served from them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pads_runtime.dashboard.guard import Access
from pads_runtime.dashboard.server import Place, serve
from pads_runtime.frames import TraceEvent
from pads_runtime.testing import Script, converse
from pads_runtime.trace import to_line


def _load_browser() -> Any:
    """The tests are no package, so the module is loaded from its file, once."""
    name = "pads_tests_browser"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("browser.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
def browser() -> Any:
    """The module that drives Chromium."""
    module = _load_browser()
    if module.path() is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return module


class Runs:
    """Makes run folders. A running one belongs to this process unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(
        self, folder: str, *, events: Sequence[TraceEvent] | None = None, timeline: str = "", **manifest: Any
    ) -> Path:
        path = self.folder / folder
        path.mkdir()
        settings = {"gate": {"theta_end": 0.6, "theta_deep": 0.4}, "clock": {"kind": "real"}}
        whole = {"name": "talk", "purpose": "live talk", "status": "finished", "settings": settings}
        whole |= {"began_utc": "2027-01-01T10:00:00+00:00", "pid": os.getpid()} | manifest
        (path / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
        if events is not None:
            (path / "trace.jsonl").write_text("".join(f"{to_line(e)}\n" for e in events), encoding="utf-8")
        if timeline:
            (path / "timeline.html").write_text(timeline, encoding="utf-8")
        return path

    def metrics(self, name: str, *rows: dict[str, Any]) -> None:
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.folder / name / "metrics.jsonl").write_text(lines, encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")


@pytest.fixture(scope="session")
def talk_events() -> list[TraceEvent]:
    """A talk of fakes: a branch thrown away, one used, a plain reply."""
    return converse(Script.of((0.5, "what is the time"), (2.0, "right now"), (9.0, "thank you"))).events


@dataclass
class Site:
    """The page while it is served."""

    url: str
    http: aiohttp.ClientSession
    reported: list[str] = field(default_factory=list)

    async def get(self, path: str, **options: Any) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers."""
        async with self.http.get(f"{self.url}{path}", **{"allow_redirects": False, **options}) as answer:
            return answer.status, await answer.text(), dict(answer.headers)

    async def stream(self, wanted: set[str]) -> dict[str, Any]:
        """The first payload of each kind in ``wanted``."""
        found: dict[str, Any] = {}
        async with asyncio.timeout(20), self.http.get(f"{self.url}events") as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            kind = ""
            async for line in answer.content:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    kind = text.removeprefix("event: ")
                if text.startswith("data: "):
                    found.setdefault(kind, json.loads(text.removeprefix("data: ")))
                if wanted <= found.keys():
                    return found
        raise AssertionError(f"the stream ended: {found}")


@pytest.fixture
def site() -> Callable[..., contextlib.AbstractAsyncContextManager[Site]]:
    """``async with site(folder) as page``: served on a free port, with ``access`` if given."""

    @contextlib.asynccontextmanager
    async def served(folder: Path, access: Access | None = None) -> AsyncIterator[Site]:
        reported: list[str] = []
        place: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(folder, 0, access or Access(), place.set_result, reported.append))
        try:
            url = (await asyncio.wait_for(place, 10)).url
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
                yield Site(url, http, reported)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    return served
