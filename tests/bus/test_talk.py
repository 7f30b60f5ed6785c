"""A whole talk on wall time while its broker is killed, restarted and frozen: the talk must not notice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from bus_rig import Home, Mosquitto, home_of, until

from pads_runtime.bus.mqtt import MqttBus
from pads_runtime.bus.outbox import Grade, Letter
from pads_runtime.clock import Clock
from pads_runtime.config import BusSettings
from pads_runtime.session import Session
from pads_runtime.testing import Script, converse, settings_with
from pads_runtime.trace import Trace

TALK = Script.of((0.5, "what is the capital of france"), (5.5, "tell me why"), tail_s=4.5)
DOWN_S = 2.0
"""How long the broker is away; and then, later, how long it hangs."""


class Watched:
    """The talk's broker's fate, and what the bus promised meanwhile."""

    def __init__(self, broker: Mosquitto, trace: Trace) -> None:
        self._broker, self._trace = broker, trace
        self.promised: list[dict[str, object]] = []
        self.states: list[str] = []
        self.home: Home | None = None
        self.bus: MqttBus | None = None

    async def during(self, session: Session, clock: Clock) -> AsyncIterator[None]:
        settings = BusSettings(
            enabled=True, host="127.0.0.1", port=self._broker.port, timeout_s=1.0, backoff_min_s=0.1, backoff_max_s=0.4
        )
        bus = self.bus = MqttBus(settings, session)
        bus.on_state = lambda kind, fields: self.states.append(kind)
        put, promised = bus._outbox.put, self.promised

        def note(letter: Letter) -> None:
            if letter.grade is Grade.PROMISED:
                promised.append(json.loads(letter.data))
            put(letter)

        bus._outbox.put = note  # type: ignore[method-assign]
        self._trace.listen(bus.listener)
        running = asyncio.create_task(bus.run())
        async with home_of(self._broker.port) as self.home:
            try:
                await self._fate(bus, self.home, clock)
                yield
            finally:
                running.cancel()
                self.promised = list(self.promised)  # what the talk still does is after the end of its bus
                await asyncio.wait({running})
            with contextlib.suppress(TimeoutError):  # what is missing then is told by the test
                await until(lambda: self.promised[-1] in [payload for _, payload in self.home.heard], within_s=5.0)

    async def _fate(self, bus: MqttBus, home: Home, clock: Clock) -> None:
        await clock.sleep_until(1.5)  # the user speaks
        assert bus.status().connected
        await asyncio.to_thread(self._broker.kill)
        await clock.sleep_until(1.5 + DOWN_S)  # the turn ends and is answered meanwhile
        await asyncio.to_thread(self._broker.start)
        await until(lambda: bus.status().connected and home.connections == 2)
        await clock.sleep_until(6.0)  # the user speaks again
        self._broker.freeze()
        await clock.sleep_until(6.0 + DOWN_S)
        self._broker.thaw()
        await until(lambda: bus.status().connected)
        await clock.sleep_until(10.0)
        await home.publish("pads/default/in/say", {"text": "the washing is done"})
        with contextlib.suppress(TimeoutError):  # what is missing then is told by the test
            await until(lambda: bus.status().waiting == 0 and "say_finished" in self.events(), within_s=5.0)

    def events(self) -> list[str]:
        assert self.home is not None
        return [payload["event"] for topic, payload in self.home.heard if "event" in payload]


@pytest.mark.slow
def test_a_broker_that_is_killed_restarted_and_frozen_costs_the_talk_nothing(broker: Mosquitto) -> None:
    trace = Trace()
    watched = Watched(broker, trace)
    talk = converse(TALK, settings_with(), during=watched.during, virtual=False, trace=trace)
    alone = converse(TALK, settings_with())

    assert talk.user_rows == alone.user_rows
    assert talk.agent_rows == [*alone.agent_rows, "the washing is done"]  # the order came over the new subscription
    assert talk.session.frames_dropped == 0
    worst_lag_s = max(talk.session.lags_s)
    assert worst_lag_s < DOWN_S / 2, "the loop waited for the broker"

    assert watched.home is not None and watched.bus is not None
    arrived = {payload["seq"]: payload for _, payload in watched.home.heard if "seq" in payload}
    promised = {payload["seq"]: payload for payload in watched.promised}
    assert arrived == promised
    assert {payload["event"] for payload in promised.values() if 1.6 < payload["t_s"] < 3.4} >= {  # nobody was there
        "turn_confirmed",
        "committed",
        "playback_started",
    }
    seqs = [payload["seq"] for _, payload in watched.home.heard if "seq" in payload]
    assert list(dict.fromkeys(seqs)) == sorted(set(seqs))
    assert watched.bus.status().dropped["promised"] == 0
    assert watched.states.count("bus_connected") >= 2 and "bus_lost" in watched.states
    print(
        f"{len(arrived)} of {len(promised)} promised messages, worst loop lag {worst_lag_s * 1000:.1f} ms, "
        f"frames dropped {talk.session.frames_dropped}, states {watched.states}"
    )
