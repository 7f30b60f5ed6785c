"""The page's server: static files of this package, one stream of events, and the pages that runs left behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from ..errors import PadsError
from . import records
from .guard import TIMELINE_POLICY, Access, guard
from .hub import Full, Hub
from .vitals import Vitals
from .watch import Watcher

TALK_EVERY_S, VITALS_EVERY_S, RUNS_EVERY_S = 0.15, 2.0, 3.0
RUNS_LISTED = 25
HEARTBEAT_S = 15.0
READS_WITHIN_S = 10.0
"""A browser that takes nothing for this long is dropped."""
TIMELINE_BYTES = 64 * 1024 * 1024
STATIC = Path(__file__).with_name("static")
_PAGES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_FOLDER = web.AppKey("folder", Path)
_HUB = web.AppKey("hub", Hub)
_REPORT: web.AppKey[Callable[[str], None]] = web.AppKey("report")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the page is found."""

    url: str


def application(folder: Path, access: Access, report: Callable[[str], None]) -> web.Application:
    """The page of the runs in ``folder``. ``report`` is told, in one line, what went wrong on the server's side."""
    app = web.Application(middlewares=[guard(access, report)], client_max_size=1024)
    app[_FOLDER], app[_HUB] = folder, Hub()
    for path in _PAGES:
        app.router.add_get(path, _static)
    app.router.add_get("/events", _events, allow_head=False)
    app.router.add_get("/runs/{name}/timeline.html", _timeline)
    app[_REPORT] = report
    app.cleanup_ctx.append(_feeding)
    app.on_shutdown.append(_close_streams)
    return app


async def serve(
    folder: Path, port: int, access: Access, started: Callable[[Place], None], report: Callable[[str], None]
) -> None:
    """Serve until cancelled; ``started`` is told the address. Raises PadsError where the port cannot be had."""
    runner = web.AppRunner(application(folder, access, report), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, access.host, port, reuse_address=True)
        try:
            await site.start()
        except OSError as exc:
            raise PadsError(_why_not(exc, access.host, port)) from None
        bound = runner.addresses[0][1]
        host = f"[{access.host}]" if ":" in access.host else access.host
        started(Place(f"http://{host}:{bound}/"))
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()


def _why_not(exc: OSError, host: str, port: int) -> str:
    match exc.errno:
        case errno.EADDRINUSE:
            return f"port {port} of {host} is taken; choose another with --port, or 0 for any free one"
        case errno.EACCES:
            return f"port {port} of {host} is not for us; choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"'{host}' is no address of this machine; choose another with --host"
        case _:
            return f"the dashboard cannot be served on '{host}' port {port}: {exc.strerror or exc}"


# ---------------------------------------------------------------- what is asked for


async def _static(request: web.Request) -> web.Response:
    name, kind = _PAGES[request.path]
    body = await asyncio.to_thread((STATIC / name).read_bytes)
    return web.Response(body=body, content_type=kind, charset="utf-8")


async def _timeline(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    path = records.file_of(request.app[_FOLDER], name, "timeline.html")
    if path is None:
        raise web.HTTPNotFound(text="there is no such run, or it left no timeline")
    try:
        body = await asyncio.to_thread(_read, path)
    except OSError:
        raise web.HTTPNotFound(text="the timeline of this run cannot be read") from None
    headers = {"Content-Security-Policy": TIMELINE_POLICY}
    return web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(TIMELINE_BYTES + 1)
    if len(body) > TIMELINE_BYTES:
        raise OSError(errno.EFBIG, "too long")
    return body


async def _events(request: web.Request) -> web.StreamResponse:
    """The stream (HTML standard, 9.2): one message for each kind that changed."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise web.HTTPForbidden(text="another site may not read this")
    hub = request.app[_HUB]
    try:
        subscription = hub.subscribe()
    except Full:
        raise web.HTTPServiceUnavailable(text="too many pages are open; close one") from None
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    try:
        await response.prepare(request)
        await response.write(b"retry: 2000\n\n")
        async for batch in subscription.batches(HEARTBEAT_S):
            text = "".join(f"event: {kind}\ndata: {payload}\n\n" for kind, payload in batch.items()) or ":\n\n"
            async with asyncio.timeout(READS_WITHIN_S):
                await response.write(text.encode())
    except (ConnectionError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()
    finally:
        hub.leave(subscription)
    return response


# ---------------------------------------------------------------- what is passed on


async def _feeding(app: web.Application) -> AsyncIterator[None]:
    folder = app[_FOLDER]
    watcher, vitals = Watcher(folder), Vitals()
    sources: tuple[tuple[str, float, Callable[[], Any]], ...] = (
        ("talk", TALK_EVERY_S, watcher.poll),
        ("vitals", VITALS_EVERY_S, lambda: vitals.read(watcher.pid)),
        ("runs", RUNS_EVERY_S, lambda: runs(folder)),
    )
    tasks = [asyncio.create_task(_feed(app, *source)) for source in sources]
    yield
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _feed(app: web.Application, kind: str, every_s: float, look: Callable[[], Any]) -> None:
    """Looks only while somebody watches: an open page costs the talk's machine as little as possible, none nothing."""
    hub = app[_HUB]
    while True:
        await hub.someone.wait()
        try:
            found = await asyncio.to_thread(look)
            hub.publish(kind, json.dumps(found, ensure_ascii=False, allow_nan=False))
        except Exception as exc:  # what one odd record brings up must not end the page
            app[_REPORT](f"{kind}: {type(exc).__name__}: {exc}")
            await asyncio.sleep(RUNS_EVERY_S)
        await asyncio.sleep(every_s)


async def _close_streams(app: web.Application) -> None:
    app[_HUB].close()


def runs(folder: Path) -> list[dict[str, Any]]:
    """The latest runs as the page lists them."""
    return [
        {
            "name": record.name,
            "kind": record.kind,
            "purpose": record.purpose,
            "state": record.state,
            "began_utc": record.began_utc,
            "error": record.error,
            "timeline": record.has_timeline,
            "figures": records.figures(folder, record),
        }
        for record in records.latest(folder, RUNS_LISTED)
    ]
