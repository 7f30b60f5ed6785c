"""The page in a real browser: what it shows, what it asks for, and that it fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pads_runtime.dashboard.guard import Access
from pads_runtime.frames import TraceEvent
from pads_runtime.timeline import render

pytestmark = pytest.mark.slow

ODD = '<img src=x onerror=alert(1)><script>document.title="odd"</script>'


def live(events: list[TraceEvent]) -> list[TraceEvent]:
    """The talk up to a prepared reply that nobody has heard."""
    generated = next(i for i, event in enumerate(events) if event.kind == "reply_generated")
    before = TraceEvent(0.01, "reply_served", {"turn": 0, "user": ODD, "agent": "Hello."})
    return [before, *events[: generated + 1]]


async def test_the_page_shows_the_talk_fits_and_asks_for_nothing_from_elsewhere(
    runs: Any, site: Callable[..., Any], browser: Any, talk_events: list[TraceEvent], tmp_path: Path
) -> None:
    runs.add("20270101T100000Z-demo", events=talk_events, timeline=render(talk_events, {}, "a talk"), purpose=ODD)
    runs.metrics("20270101T100000Z-demo", {"turns": 2})
    runs.add("20270101T110000Z-talk", events=live(talk_events), status="running")
    (tmp_path / "profile").mkdir()
    async with site(runs.folder) as served, browser.chromium(tmp_path / "profile") as page:
        await page.open(served.url)
        await page.until("document.querySelectorAll('#runs tr').length == 2")
        await page.until("document.querySelector('#timeline svg circle')")
        await page.until("document.querySelector('#machine dd')")
        assert await page.js("document.getElementById('badge').textContent") == "live"
        said = await page.js("document.getElementById('said').innerText")
        assert ODD in said, "what was said is text, whatever is in it"
        current = await page.js("document.getElementById('current').innerText")
        assert "prepared, not said" in current
        assert await page.js("document.querySelector('#current .unsaid').textContent.length") > 0
        style = "getComputedStyle(document.querySelector('#current .unsaid'))"
        assert await page.js(f"{style}.fontStyle") == "italic"
        for width, dark in ((1280, False), (400, True)):
            await page.look(width, 900, dark)
            await page.until(f"document.querySelector('#timeline svg').viewBox.baseVal.width < {width}")
            assert await page.js("document.documentElement.scrollWidth") <= width
            picture = await page.screenshot(tmp_path / f"{width}.png")
            assert len(picture) > 10_000
        assert await page.js("document.title") == "PADS"
        assert page.complaints == []
        assert {url.partition("?")[0] for url in page.requested} <= {
            f"{served.url}{name}" for name in ("", "app.js", "style.css", "icon.svg", "events")
        }
        assert served.reported == []


async def test_the_ranges_can_be_chosen_with_the_keyboard_and_a_runs_timeline_opens(
    runs: Any, site: Callable[..., Any], browser: Any, talk_events: list[TraceEvent], tmp_path: Path
) -> None:
    runs.add("20270101T100000Z-demo", events=talk_events, timeline=render(talk_events, {}, "a talk"))
    (tmp_path / "profile").mkdir()
    async with site(runs.folder) as served, browser.chromium(tmp_path / "profile") as page:
        await page.open(served.url)
        await page.until("document.querySelector('#runs a')")
        await page.until("document.querySelector('#timeline svg')")
        await page.js("document.querySelector('input[name=range]:checked').focus()")
        for kind in ("rawKeyDown", "keyUp"):
            key = {"key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
            await page.call("Input.dispatchKeyEvent", type=kind, **key)
        await page.until("document.querySelector('input[name=range]:checked').value == '60'")
        assert await page.js("document.getElementById('badge').textContent") == "ended"
        link = await page.js("document.querySelector('#runs a').href")
        await page.call("Page.navigate", url=link)
        await page.until("document.querySelector('h1') && document.querySelector('h1').textContent == 'a talk'")
        assert await page.js("document.querySelectorAll('svg').length") > 0
        assert await page.js("self.origin") == "null", "kept apart from the page's own origin"
        assert page.complaints == []


async def test_a_browser_with_the_token_gets_in_the_address_does_not_keep_it_and_a_lost_server_is_said(
    runs: Any, site: Callable[..., Any], browser: Any, tmp_path: Path
) -> None:
    (tmp_path / "profile").mkdir()
    token, badge = "a-token-of-some-length", "document.getElementById('badge').textContent"
    async with browser.chromium(tmp_path / "profile") as page:
        async with site(runs.folder, Access("127.0.0.1", token)) as served:
            await page.open(f"{served.url}?token={token}")
            await page.until(f"document.getElementById('badge') && {badge} == 'no talk'")
            assert await page.js("location.href") == served.url
            assert token not in await page.js("document.cookie")
            assert page.complaints == []
        await page.until(f"{badge} == 'connection lost'")
