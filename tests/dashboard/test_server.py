"""The page's server: who may see it, what it gives out, and what it costs."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pads_runtime.dashboard import hub as hubs
from pads_runtime.dashboard import server
from pads_runtime.dashboard.guard import Access, host_name
from pads_runtime.dashboard.hub import Full, Hub
from pads_runtime.dashboard.watch import Watcher
from pads_runtime.errors import PadsError, UsageError
from pads_runtime.frames import TraceEvent

TOKEN = "a-token-of-some-length"


# ---------------------------------------------------------------- who may see it


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1:8377", "127.0.0.1"),
        ("LOCALHOST", "localhost"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("a.example:1", "a.example"),
        ("", None),
        (None, None),
        ("a:b", None),
        ("[::1]x", None),
        ("user@localhost", None),
        ("localhost/..", None),
        ("a b", None),
        (":80", None),
        ("x" * 300, None),
    ],
)
def test_a_host_header_is_read_strictly(header: str | None, name: str | None) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize("host", ["attacker.example:8377", "127.0.0.1.attacker.example", "localhost.attacker.example"])
async def test_a_browser_that_was_led_here_under_another_name_is_refused(
    runs: Any, site: Callable[..., Any], host: str
) -> None:
    async with site(runs.folder) as page:
        for path in ("", "app.js", "events", "runs/a/timeline.html", "nowhere"):
            status, body, _ = await page.get(path, headers={"Host": host})
            assert status == 421
            assert body == "this page is not served under that name\n"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]"])
async def test_this_machines_own_names_are_let_in(runs: Any, site: Callable[..., Any], host: str) -> None:
    async with site(runs.folder) as page:
        assert (await page.get("", headers={"Host": host}))[0] == 200


def test_another_address_than_this_machines_own_needs_a_token() -> None:
    for host in ("0.0.0.0", "192.168.1.2", "my-laptop", "::"):
        with pytest.raises(UsageError, match="give a token as well"):
            Access(host)
        assert Access(host, TOKEN).token == TOKEN
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        assert Access(host).is_local


@pytest.mark.parametrize("token", ["", "short", "with spaces in it all", "ünprintable-letters"])
def test_a_token_that_is_easily_guessed_or_cannot_be_sent_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="token must"):
        Access("127.0.0.1", token)


def test_on_the_network_addresses_are_let_in_and_foreign_names_are_not() -> None:
    access = Access("0.0.0.0", TOKEN)
    assert access.allows_host("192.168.1.2:8377")
    assert access.allows_host(f"{socket.gethostname()}:8377")
    assert not access.allows_host("attacker.example")


async def test_with_a_token_nothing_is_shown_without_it(runs: Any, site: Callable[..., Any]) -> None:
    async with site(runs.folder, Access("127.0.0.1", TOKEN)) as page:
        for path in (
            "",
            "app.js",
            "events",
            "runs/a/timeline.html",
            f"?token={TOKEN}x",
            "?token=",
            f"events?token={TOKEN}",
        ):
            assert (await page.get(path))[0] == 401, path
        assert (await page.get("", headers={"Authorization": f"Bearer {TOKEN}"}))[0] == 200
        assert (await page.get("", headers={"Authorization": "Bearer x"}))[0] == 401
        status, _, headers = await page.get(f"?token={TOKEN}")
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await page.get("", headers={"Cookie": cookie.partition(";")[0]}))[0] == 200


async def test_another_site_may_not_listen(runs: Any, site: Callable[..., Any]) -> None:
    async with site(runs.folder) as page:
        status, _, headers = await page.get("events", headers={"Sec-Fetch-Site": "cross-site"})
        assert status == 403
        assert "Access-Control-Allow-Origin" not in headers


# ---------------------------------------------------------------- what it gives out


async def test_every_answer_forbids_whatever_does_not_come_from_here(runs: Any, site: Callable[..., Any]) -> None:
    runs.add("a", timeline="<p>a</p>")
    async with site(runs.folder) as page:
        for path in ("", "app.js", "style.css", "icon.svg", "nowhere", "runs/a/timeline.html", "runs/b/timeline.html"):
            _, _, headers = await page.get(path)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe-eval" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Server"] == "pads"
        page_policy = (await page.get(""))[2]["Content-Security-Policy"]
        assert "unsafe-inline" not in page_policy
        timeline_policy = (await page.get("runs/a/timeline.html"))[2]["Content-Security-Policy"]
        assert timeline_policy.startswith("sandbox; ")
        assert "script-src" not in timeline_policy


async def test_a_runs_page_is_given_out_and_a_missing_one_is_said(runs: Any, site: Callable[..., Any]) -> None:
    runs.add("20270101T100000Z-talk", timeline="<p>ä</p>")
    runs.add("20270101T110000Z-talk")
    async with site(runs.folder) as page:
        status, body, headers = await page.get("runs/20270101T100000Z-talk/timeline.html")
        assert (status, body) == (200, "<p>ä</p>")
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        for name in ("20270101T110000Z-talk", "nowhere", "..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc", "a%00b"):
            status, body, _ = await page.get(f"runs/{name}/timeline.html")
            assert status == 404, name
            assert "Traceback" not in body


async def test_nothing_but_the_timeline_of_a_run_can_be_read(runs: Any, site: Callable[..., Any]) -> None:
    runs.add("a", events=[], timeline="x")
    async with site(runs.folder) as page:
        for file in ("manifest.json", "trace.jsonl", "..%2fa%2fmanifest.json", "timeline.html/../manifest.json", ""):
            assert (await page.get(f"runs/a/{file}"))[0] == 404, file


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(runs: Any, site: Callable[..., Any], method: str) -> None:
    async with site(runs.folder) as page, page.http.request(method, page.url, data=b"x") as answer:
        assert answer.status == 405


async def test_the_stream_has_no_head(runs: Any, site: Callable[..., Any]) -> None:
    async with site(runs.folder) as page, page.http.head(f"{page.url}events") as answer:
        assert answer.status == 405


async def test_the_stream_holds_the_talk_the_machine_and_the_runs(
    runs: Any, site: Callable[..., Any], talk_events: list[TraceEvent]
) -> None:
    runs.add("20270101T100000Z-talk", events=talk_events, timeline="x")
    runs.metrics("20270101T100000Z-talk", {"turns": 2})
    async with site(runs.folder) as page:
        found = await page.stream({"talk", "vitals", "runs"})
    talk = found["talk"]
    assert (talk["run"], talk["state"], talk["live"]) == ("20270101T100000Z-talk", "finished", False)
    assert talk["theta"] == [0.6, 0.4]
    assert talk["now_s"] == round(talk_events[-1].t_s, 2)
    assert [row[1] for row in talk["seen"]["said"]] == ["user", "agent", "user", "agent"]
    assert found["runs"][0]["figures"] == [["turns", "2"]]
    assert found["runs"][0]["timeline"] is True
    assert found["vitals"]["memory_total_mb"] > 0
    assert (found["vitals"]["temperature_c"] is None) == bool(found["vitals"]["temperature_note"])


async def test_where_nothing_was_run_yet_the_stream_says_so(tmp_path: Path, site: Callable[..., Any]) -> None:
    async with site(tmp_path / "nowhere") as page:
        found = await page.stream({"talk", "runs"})
    assert found["talk"] is None
    assert found["runs"] == []


async def test_an_odd_record_does_not_end_the_page(
    runs: Any, site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(self: Watcher) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(Watcher, "poll", odd)
    async with site(runs.folder) as page:
        await page.stream({"runs", "vitals"})
        assert page.reported[0] == "talk: ValueError: odd"


# ---------------------------------------------------------------- ports and clients


async def test_a_taken_port_is_said_in_one_line(runs: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PadsError, match=f"^port {port} of 127.0.0.1 is taken; choose another with --port"):
            await server.serve(runs.folder, port, Access(), print, print)


async def test_an_address_that_is_not_this_machines_is_said_in_one_line(runs: Any) -> None:
    with pytest.raises(PadsError, match=r"^'203\.0\.113\.7' is no address of this machine"):
        await server.serve(runs.folder, 0, Access("203.0.113.7", TOKEN), print, print)


def test_a_slow_browser_holds_one_payload_a_kind_and_no_more() -> None:
    hub = Hub()
    slow = hub.subscribe()
    for i in range(10_000):
        hub.publish("talk", str(i))
        hub.publish("runs", "same")
    assert slow._waiting == {"talk": "9999", "runs": "same"}


async def test_a_new_browser_gets_the_newest_of_everything_at_once() -> None:
    hub = Hub()
    first = hub.subscribe()
    hub.publish("talk", "1")
    hub.publish("talk", "2")
    second = hub.subscribe()
    async for batch in second.batches(1.0):
        assert batch == {"talk": "2"}
        break
    hub.leave(first)
    hub.leave(second)
    assert not hub.someone.is_set()


async def test_the_same_payload_is_not_sent_twice() -> None:
    hub = Hub()
    one = hub.subscribe()
    hub.publish("runs", "x")
    batches = one.batches(0.05)
    assert await anext(batches) == {"runs": "x"}
    hub.publish("runs", "x")
    assert await anext(batches) == {}, "nothing but the heartbeat"
    hub.close()
    assert [batch async for batch in batches] == []


def test_more_browsers_than_can_be_served_are_refused() -> None:
    hub = Hub()
    for _ in range(hubs.CLIENTS):
        hub.subscribe()
    with pytest.raises(Full):
        hub.subscribe()


async def test_a_browser_that_takes_nothing_is_dropped(
    runs: Any, site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, numbers = Hub(), iter(range(10**9))
    monkeypatch.setattr(server, "Hub", lambda: hub)
    monkeypatch.setattr(server, "READS_WITHIN_S", 0.2)
    monkeypatch.setattr(server, "TALK_EVERY_S", 0.01)
    monkeypatch.setattr(Watcher, "poll", lambda self: {"n": next(numbers), "text": "x" * 500_000})
    async with site(runs.folder) as page:
        host, _, port = page.url.removeprefix("http://").rstrip("/").partition(":")
        with socket.create_connection((host, int(port))) as stuck:
            stuck.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            async with asyncio.timeout(20):
                await hub.someone.wait()
                while hub.someone.is_set():  # noqa: ASYNC110  (what is waited for is that it is cleared)
                    await asyncio.sleep(0.05)
        assert page.reported == []
        assert "talk" in await page.stream({"talk"}), "others are served as before"


async def test_while_nobody_watches_nothing_is_read(
    runs: Any, site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[int] = []
    monkeypatch.setattr(server, "TALK_EVERY_S", 0.01)
    monkeypatch.setattr(Watcher, "poll", lambda self: polls.append(1))
    async with site(runs.folder) as page:
        await asyncio.sleep(0.1)
        assert polls == []
        await page.stream({"talk"})
        assert polls


# ---------------------------------------------------------------- the live talk


def test_the_talk_that_runs_is_shown_before_later_ones_that_ended(runs: Any, talk_events: list[TraceEvent]) -> None:
    runs.add("20270101T100000Z-talk", events=talk_events[:20], status="running")
    runs.add("20270101T110000Z-demo", events=talk_events)
    runs.add("20270101T120000Z-bench", status="running")
    snapshot = Watcher(runs.folder).poll()
    assert snapshot is not None
    assert snapshot["run"] == "20270101T100000Z-talk"
    assert snapshot["live"]


def test_a_talk_is_followed_as_it_is_written_and_left_for_the_next_one(
    runs: Any, talk_events: list[TraceEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pads_runtime.dashboard.watch.LOOK_AGAIN_S", 0.0)
    folder = runs.add("20270101T100000Z-talk", events=[], status="running")
    watcher = Watcher(runs.folder)
    from pads_runtime.trace import to_line

    with (folder / "trace.jsonl").open("a", encoding="utf-8") as file:
        for event in talk_events[:12]:
            file.write(to_line(event) + "\n")
    snapshot = watcher.poll()
    assert snapshot is not None
    assert snapshot["tracks"]["user"]
    assert snapshot["now_s"] >= round(talk_events[11].t_s, 2)
    runs.add("20270101T110000Z-talk", events=talk_events[:3], status="running")
    snapshot = watcher.poll()
    assert snapshot is not None
    assert snapshot["run"] == "20270101T110000Z-talk"
    assert snapshot["seen"]["said"] == []


def test_text_that_is_only_prepared_is_never_passed_on_as_said(runs: Any, talk_events: list[TraceEvent]) -> None:
    opened = next(i for i, event in enumerate(talk_events) if event.kind == "branch_opened")
    ready = next(i for i, event in enumerate(talk_events) if event.kind == "phrase_ready" and i > opened)
    runs.add("20270101T100000Z-talk", events=talk_events[: ready + 1], status="running")
    snapshot = Watcher(runs.folder).poll()
    assert snapshot is not None
    reply = snapshot["seen"]["reply"]
    assert reply["waiting"] == talk_events[ready].fields["text"]
    assert (reply["said"], reply["committed"], reply["playing"]) == ("", False, False)
    assert talk_events[ready].fields["text"] not in json.dumps(snapshot["seen"]["said"])


async def test_the_stream_survives_a_browser_that_goes_away(runs: Any, site: Callable[..., Any]) -> None:
    async with site(runs.folder) as page:
        for _ in range(3):
            async with aiohttp.ClientSession() as http, http.get(f"{page.url}events") as answer:
                await answer.content.readline()
        assert (await page.stream({"runs"}))["runs"] == []
        assert page.reported == []
