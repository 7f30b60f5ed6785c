"""What the tests of the bus are driven with: a real mosquitto, another program on it, and a bus with fake Controls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from pads_runtime.bus.mqtt import MqttBus
from pads_runtime.config import BusSettings

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
UP_WITHIN_S = 10.0


class Mosquitto:
    """One broker process. It remembers who listens to what, so that an observer misses nothing after a restart."""

    def __init__(self, folder: Path, *lines: str, tls: tuple[Path, Path] | None = None) -> None:
        assert MOSQUITTO is not None
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._log = folder / "mosquitto.log"
        certificate = [f"certfile {tls[0]}", f"keyfile {tls[1]}"] if tls else []
        given = list(lines) if any("allow_anonymous" in line for line in lines) else ["allow_anonymous true", *lines]
        # user: started as root, mosquitto would become a user who cannot read the test's folder
        kept = [f"persistence_location {folder}/", "autosave_on_changes true", "autosave_interval 1"]
        listener = [f"listener {self.port} 127.0.0.1", *certificate]
        config = [*listener, "persistence true", *kept, "user root", *given]
        self._config.write_text("\n".join(config) + "\n", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([MOSQUITTO, "-c", str(self._config)], stdout=log, stderr=log)
        give_up_s = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < give_up_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        pytest.fail(f"mosquitto did not start: {self._log.read_text(encoding='utf-8')}")

    def kill(self) -> None:
        """As a power cut would: no goodbye."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It holds its connections and answers nobody."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(true: Callable[[], object], within_s: float = 15.0) -> None:
    """Return once ``true()`` is; fail if that takes too long to be anything but a fault."""
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - anything may make it true
            await asyncio.sleep(0.005)


class Orders:
    """Controls that keep what they were told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def mute(self, muted: bool) -> None:
        self.heard.append(("mute", muted))

    def stop_speaking(self) -> None:
        self.heard.append(("stop",))

    def say(self, text: str) -> None:
        self.heard.append(("say", text))

    def repeat(self) -> None:
        self.heard.append(("repeat",))

    def hear(self, text: str, final: bool) -> None:
        self.heard.append(("hear", text, final))

    def quit(self) -> None:
        self.heard.append(("quit",))


class Home:
    """Another program on the broker: it hears everything, comes back after a restart, and can publish."""

    def __init__(self, port: int, **login: Any) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.connections = 0
        self._port, self._login = port, login
        self._client: aiomqtt.Client | None = None

    def on(self, topic: str) -> list[Any]:
        """The payloads of one topic, oldest first."""
        return [payload for name, payload in self.heard if name == topic]

    async def publish(self, topic: str, payload: Any, qos: int = 1, retain: bool = False) -> None:
        assert self._client is not None
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        await self._client.publish(topic, raw, qos=qos, retain=retain)

    async def run(self) -> None:
        while True:
            client = aiomqtt.Client("127.0.0.1", self._port, identifier="home", clean_session=False, **self._login)
            with contextlib.suppress(aiomqtt.MqttError, OSError):
                async with client:
                    await client.subscribe("#", qos=1)
                    self._client, self.connections = client, self.connections + 1
                    async for message in client.messages:
                        with contextlib.suppress(ValueError, RecursionError):
                            self.heard.append((str(message.topic), json.loads(message.payload)))
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def home_of(port: int, **login: Any) -> AsyncIterator[Home]:
    """A Home that listens, ended with the block."""
    home = Home(port, **login)
    task = asyncio.create_task(home.run())
    try:
        await until(lambda: home.connections)
        yield home
    finally:
        while not task.done():  # Python 3.11 may lose a cancellation that meets an acknowledgement
            task.cancel()
            await asyncio.wait({task}, timeout=0.1)


class Talk:
    """A bus with its task, its orders, and what it said of itself."""

    def __init__(self, **settings: Any) -> None:
        given = {"enabled": True, "host": "127.0.0.1", "backoff_min_s": 0.05, "backoff_max_s": 0.2, **settings}
        self.orders = Orders()
        self.bus = MqttBus(BusSettings.model_validate(given), self.orders)
        self.states: list[tuple[str, Mapping[str, Any]]] = []
        self.bus.on_state = lambda kind, fields: self.states.append((kind, fields))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.states]

    async def bus_for(self, lifetime_s: float) -> None:
        """Run the bus for so long."""
        async with self.running(connected=False):
            await asyncio.sleep(lifetime_s)

    @contextlib.asynccontextmanager
    async def running(self, connected: bool = True) -> AsyncIterator[MqttBus]:
        task = asyncio.create_task(self.bus.run())
        try:
            if connected:
                await until(lambda: self.bus.status().connected)
            yield self.bus
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task.exception()
