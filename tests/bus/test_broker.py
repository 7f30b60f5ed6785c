"""The bus against a real mosquitto that comes, goes, hangs, refuses and floods."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from bus_rig import Home, Mosquitto, Talk, free_port, home_of, until

from pads_runtime.bus import mqtt
from pads_runtime.frames import TraceEvent


def turn_event(turn: int) -> TraceEvent:
    return TraceEvent(float(turn), "turn_confirmed", {"turn": turn, "last_voiced_s": turn - 0.5})


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def turns(home: Home, topic: str = "pads/default/turn") -> list[int]:
    return [payload["turn"] for payload in home.on(topic)]


async def test_an_event_arrives_as_small_json_on_the_topic_of_its_site(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, site="kitchen")
    async with home_of(broker.port) as home, talk.running() as bus:
        bus.listener(turn_event(1))
        await until(lambda: home.on("pads/kitchen/turn"))
    (payload,) = home.on("pads/kitchen/turn")
    talk_id = payload.pop("talk")
    assert len(talk_id) == 8
    assert payload == {"event": "turn_confirmed", "t_s": 1.0, "seq": 1, "turn": 1, "last_voiced_s": 0.5}


async def test_an_order_is_obeyed_at_once(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port)
    async with home_of(broker.port) as home, talk.running():
        await home.publish("pads/default/in/say", {"text": "the washing is done"})
        await home.publish("pads/default/in/transcript", {"text": "what is", "final": False})
        await home.publish("pads/default/in/mute", {"muted": True})
        await home.publish("pads/default/in/stop", b"")
        await until(lambda: len(talk.orders.heard) == 4)
    assert talk.orders.heard == [("say", "the washing is done"), ("hear", "what is", False), ("mute", True), ("stop",)]


async def test_a_killed_broker_loses_no_promised_event_and_gets_its_subscriptions_again(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port)
    async with home_of(broker.port) as home, talk.running() as bus:
        bus.listener(turn_event(1))
        await until(lambda: turns(home) == [1])
        broker.kill()
        bus.listener(turn_event(2))  # perhaps before the bus has noticed
        await until(lambda: not bus.status().connected)
        for turn in range(3, 10):
            bus.listener(turn_event(turn))
        bus.listener(TraceEvent(9.0, "turn_end_predicted", {"p_end": 0.5, "audio_end_s": 9.0}))
        broker.start()
        await until(lambda: bus.status().connected and 9 in turns(home))
        await home.publish("pads/default/in/say", {"text": "again"})
        await until(lambda: talk.orders.heard)
    assert sorted(set(turns(home))) == list(range(1, 10))
    assert turns(home) == sorted(turns(home))
    assert home.on("pads/default/gate") == []  # worthless late, and counted
    assert talk.bus.status().dropped == {"live": 1, "kept": 0, "promised": 0}
    assert talk.orders.heard == [("say", "again")]
    assert talk.kinds().count("bus_connected") == 2


async def test_a_broker_that_dies_with_messages_on_their_way_gets_them_again(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, timeout_s=2.0)
    async with home_of(broker.port) as home, talk.running() as bus:
        broker.freeze()  # what is sent now stays without an answer
        for turn in range(1, 21):
            bus.listener(turn_event(turn))
        await until(lambda: talk.bus._link is not None and talk.bus._link._client._pending_publishes)
        assert bus.status().waiting == 20
        broker.kill()
        broker.start()
        await until(lambda: 20 in turns(home))
    assert sorted(set(turns(home))) == list(range(1, 21))


async def test_a_hanging_broker_is_given_up_and_found_again(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, timeout_s=0.5)
    async with home_of(broker.port) as home, talk.running() as bus:
        broker.freeze()
        bus.listener(turn_event(1))
        await until(lambda: "bus_lost" in talk.kinds())
        bus.listener(turn_event(2))
        broker.thaw()
        await until(lambda: 2 in turns(home))
    assert sorted(set(turns(home))) == [1, 2]


async def test_the_last_will_and_the_retained_state_tell_a_latecomer_how_things_stand(broker: Mosquitto) -> None:
    async def state() -> Any:
        late = Home(broker.port)
        task = asyncio.create_task(late.run())
        try:
            await until(lambda: late.on("pads/default/status"))
            return late.on("pads/default/status")[0]
        finally:
            task.cancel()
            await asyncio.wait({task})

    talk = Talk(port=broker.port)
    async with talk.running() as bus:
        bus.listener(TraceEvent(1.0, "state_changed", {"turn": 1, "before": "idle", "state": "listening"}))
        await until(lambda: bus.status().waiting == 0)
        here = await state()
        assert (here["online"], here["state"], here["turn"], here["muted"]) == (True, "listening", 1, False)
    gone = await state()
    assert gone == {"online": False, "talk": here["talk"]}


async def test_who_vanishes_without_a_word_is_declared_gone_by_the_broker(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port)
    async with home_of(broker.port) as home:
        async with talk.running() as bus:
            await until(lambda: home.on("pads/default/status"))
            link = talk.bus._link
            assert link is not None
            link._paho.socket().shutdown(2)  # the network is cut: no goodbye
            await until(lambda: {"online": False} in [_without_talk(p) for p in home.on("pads/default/status")])
            await until(lambda: bus.status().connected)
        states = [payload["online"] for payload in home.on("pads/default/status")]
    assert states == [True, False, True, False]


def _without_talk(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key != "talk"}


async def test_the_end_of_a_talk_still_sends_what_was_promised(
    broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "FAREWELL_S", 15.0)  # on a busy machine a second may not do
    talk = Talk(port=broker.port)
    async with home_of(broker.port) as home:
        async with talk.running() as bus:
            for turn in range(1, 51):
                bus.listener(turn_event(turn))
        await until(lambda: len(turns(home)) >= 50)
    assert sorted(set(turns(home))) == list(range(1, 51))


async def test_the_end_of_a_talk_does_not_wait_for_a_broker_that_hangs(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, timeout_s=60.0)
    async with home_of(broker.port) as home:
        async with asyncio.timeout(20.0), talk.running() as bus:
            broker.freeze()
            bus.listener(turn_event(1))
        (kind, fields) = talk.states[-1]
        assert kind == "bus_lost" and "1 promised messages were not sent" in fields["reason"]
        broker.thaw()  # we left without a goodbye: it tells our last will
        await until(lambda: [payload["online"] for payload in home.on("pads/default/status")] == [True, False])


async def test_a_bus_that_is_ended_at_any_instant_of_its_connecting_leaves_nothing_behind(broker: Mosquitto) -> None:
    await Talk(port=broker.port).bus_for(0.0)
    await asyncio.get_running_loop().run_in_executor(None, int)  # the pool's thread and its pipe are there from now on
    before = open_files()
    for step in range(25):
        await Talk(port=broker.port).bus_for(step * 0.001)
    await until(lambda: open_files() <= before)
    assert len(asyncio.all_tasks()) == 1


# ---------------------------------------------------------------- who will not have us


async def test_a_closed_port_is_said_once_and_tried_again() -> None:
    talk = Talk(port=free_port(), backoff_max_s=0.05)
    async with talk.running(connected=False) as bus:
        await until(lambda: bus.status().tries > 4)
        assert not bus.status().connected
    assert talk.kinds() == ["bus_lost"]
    assert "cannot be reached: Connection refused" in talk.states[0][1]["reason"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_a_wrong_password_is_said_once_and_never_shown(
    mosquitto: Callable[..., Mosquitto], tmp_path: Path, protocol: str
) -> None:
    broker = mosquitto("allow_anonymous false", f"password_file {password_file(tmp_path)}")
    talk = Talk(port=broker.port, username="pads", password="not the one", protocol=protocol, backoff_max_s=0.05)
    async with talk.running(connected=False) as bus:
        await until(lambda: bus.status().tries > 4)
    assert talk.kinds() == ["bus_refused"]
    assert "check bus.username and its password" in talk.states[0][1]["reason"]
    assert "not the one" not in f"{talk.states} {bus.status()} {vars(bus)}"


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_the_right_password_is_let_in(
    mosquitto: Callable[..., Mosquitto], tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = mosquitto("allow_anonymous false", f"password_file {password_file(tmp_path)}")
    monkeypatch.setenv("PADS_MQTT_PASSWORD", "open sesame")
    talk = Talk(port=broker.port, username="pads", protocol=protocol)
    async with home_of(broker.port, username="pads", password="open sesame") as home, talk.running() as bus:
        bus.listener(turn_event(1))
        await until(lambda: turns(home) == [1])


async def test_a_topic_that_the_access_list_forbids_is_named(
    mosquitto: Callable[..., Mosquitto], tmp_path: Path
) -> None:
    (tmp_path / "acl").write_text("topic readwrite pads/default/turn\ntopic readwrite pads/default/status\n")
    broker = mosquitto(f"acl_file {tmp_path / 'acl'}")
    talk = Talk(port=broker.port)
    async with talk.running() as bus:
        for turn in (1, 2):
            bus.listener(turn_event(turn))
            bus.listener(TraceEvent(turn, "reply_opened", {"turn": turn}))
        await until(lambda: bus.status().waiting == 0)
        assert bus.status().sent == 2
    assert talk.kinds() == ["bus_connected", "bus_refused"]
    assert "does not let us publish on pads/default/reply" in talk.states[1][1]["reason"]


# ---------------------------------------------------------------- TLS


async def test_tls_with_an_authority_of_ones_own(mosquitto: Callable[..., Mosquitto], authority: Path) -> None:
    broker = mosquitto(tls=(authority / "broker.pem", authority / "broker.key"))
    talk = Talk(port=broker.port, host="localhost", tls=True, ca_file=authority / "ca.pem")
    context = ssl.create_default_context(cafile=authority / "ca.pem")
    async with home_of(broker.port, tls_context=context) as home, talk.running() as bus:
        bus.listener(turn_event(1))
        await until(lambda: turns(home) == [1])
        await home.publish("pads/default/in/stop", b"")
        await until(lambda: talk.orders.heard)


async def test_a_certificate_of_nobody_we_know_is_refused(mosquitto: Callable[..., Mosquitto], authority: Path) -> None:
    broker = mosquitto(tls=(authority / "broker.pem", authority / "broker.key"))
    talk = Talk(port=broker.port, host="localhost", tls=True)
    async with talk.running(connected=False):
        await until(lambda: talk.states)
    assert talk.kinds() == ["bus_refused"]
    assert "certificate is not trusted" in talk.states[0][1]["reason"]
    assert "bus.ca_file" in talk.states[0][1]["reason"]


async def test_tls_to_a_plain_port_is_one_clear_line(broker: Mosquitto, authority: Path) -> None:
    talk = Talk(port=broker.port, host="localhost", tls=True, ca_file=authority / "ca.pem")
    async with talk.running(connected=False):
        await until(lambda: talk.states)
    assert "\n" not in talk.states[0][1]["reason"]
    assert f"localhost:{broker.port}" in talk.states[0][1]["reason"]


# ---------------------------------------------------------------- too much


async def test_bad_orders_are_refused_and_counted_and_the_next_good_one_is_obeyed(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, max_in_bytes=2000)
    async with home_of(broker.port) as home, talk.running() as bus:
        for payload in (b"\xff\xfe", b"[" * 1900, b"[1]", b'{"text": 7}', b'{"text": "' + b"x" * 3000 + b'"}'):
            await home.publish("pads/default/in/say", payload)
        await home.publish("pads/default/in/say", b"y" * 300_000)  # the broker keeps this one
        await home.publish("pads/default/in/say", {"text": "still here"})
        await until(lambda: talk.orders.heard)
    assert talk.orders.heard == [("say", "still here")]
    refused = {"not UTF-8": 1, "not JSON": 1, "not an object": 1, "no text": 1, "too long": 1}
    assert bus.status().refused == refused
    assert talk.kinds() == ["bus_connected", "bus_input_refused"]  # told once, not five times


async def test_an_old_order_that_the_broker_kept_is_not_obeyed(broker: Mosquitto) -> None:
    async with home_of(broker.port) as home:
        await home.publish("pads/default/in/say", {"text": "an old story"}, retain=True)
        talk = Talk(port=broker.port)
        async with talk.running():
            await home.publish("pads/default/in/stop", b"")
            await until(lambda: talk.orders.heard)
    assert talk.orders.heard == [("stop",)]


async def test_a_flood_is_cut_to_the_rate_and_a_stop_on_another_topic_still_gets_through(broker: Mosquitto) -> None:
    talk = Talk(port=broker.port, in_per_s=5.0)
    loop = asyncio.get_running_loop()
    async with aiomqtt.Client("127.0.0.1", broker.port) as flooder, talk.running() as bus:
        before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        flooder.pending_calls_threshold = 10**6
        began_s = loop.time()
        for _ in range(8):
            await asyncio.gather(*(flooder.publish("pads/default/in/say", b'{"text": "hi"}') for _ in range(250)))
        await flooder.publish("pads/default/in/stop", b"", qos=1)
        await until(lambda: ("stop",) in talk.orders.heard)
        bus.listener(turn_event(1))
        await until(lambda: bus.status().waiting == 0)
        took_s = loop.time() - began_s
        grown_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb
    said = [order for order in talk.orders.heard if order[0] == "say"]
    assert 10 <= len(said) <= 10 + 5 * took_s + 1
    assert bus.status().refused["too many"] > 500
    assert grown_mb < 64
    assert talk.kinds().count("bus_input_refused") <= 1 + took_s / 10
    assert "bus_lost" not in talk.kinds()


def password_file(folder: Path) -> Path:
    """User pads, password "open sesame", hashed as mosquitto_passwd does (PBKDF2-SHA512, 101 rounds)."""
    import base64
    import hashlib

    salt = b"twelve bytes"
    digest = hashlib.pbkdf2_hmac("sha512", b"open sesame", salt, 101)
    path = folder / "passwords"
    path.write_text(f"pads:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    path.chmod(0o600)
    return path
