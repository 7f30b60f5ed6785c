"""Is the broker there, does it let us in, and does what we publish come back? One step after the other."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ..config import BusSettings
from ..errors import DeviceError
from .inbound import topics_of
from .link import Broker, Link, broker_of, try_address


@dataclass(frozen=True)
class Step:
    """What one step found; ``advice`` says what to do where it is not good."""

    name: str
    good: bool
    found: str
    advice: str = ""


async def check(settings: BusSettings) -> list[Step]:
    """All steps up to the first that fails. Raises ConfigError if a file named in the settings cannot be read."""
    broker = broker_of(settings)
    return [step async for step in _steps(settings, broker)]


async def _steps(settings: BusSettings, broker: Broker) -> AsyncIterator[Step]:
    secured = "TLS, its certificate is trusted" if broker.tls else "no TLS"
    try:
        await try_address(broker)
    except DeviceError as exc:
        yield _failed("address", exc)
        return
    yield Step("address", True, f"{broker.where}, {secured}")
    nonce = secrets.token_hex(8).encode()
    came_back = asyncio.Event()
    link = Link(broker, f"pads-check-{secrets.token_hex(4)}", lambda _, payload, __: _note(payload == nonce, came_back))
    try:
        await link.open()
        yield _login(broker)
        yield await _hears(settings, link)
        yield await _round_trip(settings, link, nonce, came_back)
    except DeviceError as exc:
        yield _failed("connection", exc)
    finally:
        await link.close()


def _note(same: bool, came_back: asyncio.Event) -> None:
    if same:
        came_back.set()


def _failed(name: str, exc: DeviceError) -> Step:
    fault, _, advice = str(exc).partition("; ")
    return Step(name, False, fault, advice or "is it running, and are bus.host, bus.port and bus.tls right?")


def _login(broker: Broker) -> Step:
    who = f"as '{broker.username}'" if broker.username else "without a name"
    if broker.password and not broker.tls and broker.host not in ("localhost", "127.0.0.1", "::1"):
        return Step("login", True, who, "the password crosses the network in clear: set bus.tls if the broker can")
    return Step("login", True, who)


async def _hears(settings: BusSettings, link: Link) -> Step:
    topics = topics_of(settings)
    refused = await link.subscribe(topics)
    if refused:
        return Step("orders", False, f"not allowed to hear {', '.join(refused)}", "see the broker's access list")
    return Step("orders", True, f"{len(topics)} topics, pads/{settings.site}/in/..." + _hermes(settings))


def _hermes(settings: BusSettings) -> str:
    return " and hermes/..." if settings.hermes else ""


async def _round_trip(settings: BusSettings, link: Link, nonce: bytes, came_back: asyncio.Event) -> Step:
    """A message to ourselves: whoever may not publish or may not hear does not see it again."""
    topic = f"pads/{settings.site}/check"
    began_s = asyncio.get_running_loop().time()
    refused = await link.subscribe([topic], own=True)
    allowed = await link.publish(topic, nonce, qos=1)
    try:
        async with asyncio.timeout(settings.timeout_s):
            await came_back.wait()
    except TimeoutError:
        what = "may not be published" if not allowed else "may not be heard" if refused else "did not come back"
        return Step("round trip", False, f"a message on {topic} {what}", "see the broker's access list")
    took_ms = (asyncio.get_running_loop().time() - began_s) * 1000
    return Step("round trip", True, f"a message on {topic} came back after {took_ms:.0f} ms")
