"""One connection to a broker: opened, used, closed. The only module that touches aiomqtt.

aiomqtt connects in a thread that cannot be called back, so the address, the port and the certificate are first tried
on the event loop, where a wait can be ended; what can take long has then been done.

What aiomqtt has no public call for is done on its insides, all in :class:`Link`: to stop reading for a moment (a flood
then waits in the broker), to hear that a message was forbidden, to drop a connection that no longer answers, and to
take note of an error that nobody waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from ..config import BusSettings
from ..errors import BrokerRefused, ConfigError, DeviceError
from .pace import Bucket

PASSWORD_VARIABLE = "PADS_MQTT_PASSWORD"
MAX_PACKET = 262_144 + 1024
"""Bytes; an MQTT 5 broker keeps longer ones to itself."""
RECEIVE_BUFFER = 65_536
"""Bytes of a flood that may wait in this machine's kernel."""
READS_PER_S = 2000.0
"""Packets read per second; more stay with the broker, which drops what it cannot keep."""
READS_AT_ONCE = 500.0
READ_PAUSE_S = 0.02
CLOSE_WITHIN_S = 1.0

Deliver = Callable[[str, bytes, bool], None]
"""Called with topic, payload, and whether the message was a retained one."""


@dataclass(frozen=True)
class Broker:
    """Where a broker is and how to speak to it."""

    host: str
    port: int
    username: str | None
    password: str | None
    tls: ssl.SSLContext | None
    version_5: bool
    timeout_s: float
    keepalive_s: int

    def __repr__(self) -> str:
        return f"Broker({self.where})"  # never the password

    @property
    def where(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Will:
    """What the broker says of us once we are gone without a word."""

    topic: str
    payload: bytes


def broker_of(settings: BusSettings) -> Broker:
    """Read password and certificates. Raises ConfigError if a named file cannot be used."""
    return Broker(
        host=settings.host,
        port=settings.port or (8883 if settings.tls else 1883),
        username=settings.username or None,
        password=_password(settings) if settings.username else None,
        tls=_tls(settings) if settings.tls else None,
        version_5=settings.protocol == "5",
        timeout_s=settings.timeout_s,
        keepalive_s=settings.keepalive_s,
    )


def _password(settings: BusSettings) -> str | None:
    if settings.password_file is not None:
        try:
            return settings.password_file.read_text(encoding="utf-8").strip("\r\n")
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
            raise ConfigError(f"bus.password_file '{settings.password_file}' cannot be read: {reason}") from None
    return os.environ.get(PASSWORD_VARIABLE) or settings.password.get_secret_value() or None


def _tls(settings: BusSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        reason = "not a PEM certificate" if isinstance(exc, ssl.SSLError | ValueError) else exc.strerror
        raise ConfigError(f"bus.ca_file '{settings.ca_file}' cannot be used: {reason}") from None


async def try_address(broker: Broker) -> None:
    """Connect and hang up: is anybody there, and who? Raises DeviceError, BrokerRefused for a certificate."""
    try:
        async with asyncio.timeout(broker.timeout_s):
            name = broker.host if broker.tls else None
            _, writer = await asyncio.open_connection(broker.host, broker.port, ssl=broker.tls, server_hostname=name)
    except TimeoutError:
        raise DeviceError(f"broker {broker.where} does not answer within {broker.timeout_s:g} s") from None
    except ssl.SSLError as exc:
        raise BrokerRefused(f"broker {broker.where}: {_tls_fault(exc)}") from None
    except socket.gaierror as exc:
        raise DeviceError(f"broker {broker.where} has no address: {exc.strerror}; check bus.host") from None
    except (OSError, ValueError) as exc:  # ValueError: a host name that cannot be one
        reason = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
        raise DeviceError(f"broker {broker.where} cannot be reached: {reason}") from None
    writer.transport.abort()


def _tls_fault(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({exc.verify_message}); name its authority in bus.ca_file"
    return f"no TLS there ({exc.reason or exc}); is bus.port the TLS port?"


class Link:
    """A connection that ends at the first fault. Use once: ``open``, ``subscribe`` and ``publish``, ``close``."""

    def __init__(self, broker: Broker, name: str, deliver: Deliver, will: Will | None = None) -> None:
        self._broker, self._deliver = broker, deliver
        self._pace = Bucket(READS_PER_S, READS_AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        properties = None
        if broker.version_5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.MaximumPacketSize = MAX_PACKET
        self._client = aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.username,
            password=broker.password,
            logger=_silent(),
            identifier=name,
            queue_type=_handing_to(self._received),
            protocol=aiomqtt.ProtocolVersion.V5 if broker.version_5 else aiomqtt.ProtocolVersion.V311,
            will=aiomqtt.Will(will.topic, will.payload, qos=1, retain=True) if will else None,
            timeout=broker.timeout_s,
            keepalive=broker.keepalive_s,
            properties=properties,
            tls_context=broker.tls,
            socket_options=((socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER),),
        )
        self._denied = False
        self._paho.on_publish = self._acknowledged

    async def open(self) -> None:
        """Connect and log in. Raises BrokerRefused if it will not have us, else DeviceError."""
        await try_address(self._broker)
        where = self._broker.where
        try:
            await self._enter()
        except aiomqtt.MqttCodeError as exc:
            advice = "check bus.username and its password" if _is_login(exc) else "see the broker's log"
            raise BrokerRefused(f"broker {where} refused the connection: {_code(exc)}; {advice}") from None
        except (aiomqtt.MqttError, OSError, ValueError) as exc:
            raise DeviceError(f"broker {where} broke off while connecting: {exc}") from None

    async def _enter(self) -> None:
        """Connect in aiomqtt's thread. Who is cancelled here waits for the thread, or its socket would be nobody's."""
        entering = asyncio.ensure_future(self._client.__aenter__())
        try:
            await asyncio.shield(entering)
        except asyncio.CancelledError:
            await asyncio.wait({entering}, timeout=CLOSE_WITHIN_S)
            entering.cancel()
            await asyncio.wait({entering})
            if not entering.cancelled():
                entering.exception()
            raise

    async def subscribe(self, topics: Sequence[str], own: bool = False) -> list[str]:
        """Ask for ``topics`` at QoS 1, without retained messages and (MQTT 5) without our own unless ``own``.

        Returns those that the broker's access list refuses.
        """
        wanted: list[Any] = [(topic, 1) for topic in topics]
        if self._broker.version_5:
            options = SubscribeOptions(qos=1, noLocal=not own, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
            wanted = [(topic, options) for topic in topics]
        try:
            codes = await self._client.subscribe(wanted)
        except aiomqtt.MqttError as exc:
            raise self._lost(exc) from None
        failed = [code.is_failure if hasattr(code, "is_failure") else int(code) >= 128 for code in codes]
        return [topic for topic, bad in zip(topics, failed, strict=False) if bad]

    async def publish(self, topic: str, data: bytes, qos: int, retain: bool = False) -> bool:
        """Return once the broker has acknowledged (QoS 1) or the message is on its way (QoS 0). Raises DeviceError.

        False: its access list forbids it, as an MQTT 5 broker says of QoS 1. One call at a time.
        """
        self._denied = False
        try:
            await self._client.publish(topic, data, qos=qos, retain=retain)
        except (aiomqtt.MqttError, ValueError) as exc:
            raise self._lost(exc) from None
        return not self._denied

    async def lost(self) -> None:
        """Wait for the end of the connection, and raise it as a DeviceError."""
        try:
            async for _ in self._client.messages:
                pass  # none comes this way: they are delivered as they arrive
        except (aiomqtt.MqttError, OSError) as exc:
            raise self._lost(exc.__cause__ or exc) from None

    async def close(self, polite: bool = True) -> None:
        """Drop the connection, within a second; ``polite``: with a goodbye, so that the will is not told."""
        if self._resume is not None:
            self._resume.cancel()
        if polite:
            with contextlib.suppress(aiomqtt.MqttError, TimeoutError, OSError):
                async with asyncio.timeout(CLOSE_WITHIN_S):
                    await self._client.__aexit__(None, None, None)
        self._paho._sock_close()
        fate = self._client._disconnected
        if fate.done() and not fate.cancelled():
            fate.exception()  # it has been told or does not matter: nobody need hear of it at exit
        misc = self._client._misc_task
        if misc is not None:
            misc.cancel()
            await asyncio.wait({misc})

    def _lost(self, exc: BaseException) -> DeviceError:
        return DeviceError(f"broker {self._broker.where} is gone: {_code(exc)}")

    def _acknowledged(self, client: Any, userdata: Any, mid: int, code: Any, properties: Any) -> None:
        self._denied = bool(getattr(code, "is_failure", False))
        self._client._on_publish(client, userdata, mid, code, properties)

    # ------------------------------------------------------------ what comes in

    @property
    def _paho(self) -> Any:
        return self._client._client

    def _received(self, message: aiomqtt.Message) -> None:
        if not self._pace.take(self._loop.time()) and self._resume is None:
            self._stop_reading()
        self._deliver(str(message.topic), message.payload, message.retain)

    def _stop_reading(self) -> None:
        sock = self._paho.socket()
        if sock is not None:
            self._loop.remove_reader(sock)
            self._resume = self._loop.call_later(READ_PAUSE_S, self._read_on, sock)

    def _read_on(self, sock: Any) -> None:
        self._resume = None
        if self._paho.socket() is sock:
            self._loop.add_reader(sock, self._read)
            self._read()  # TLS may hold decoded bytes that the socket no longer shows

    def _read(self) -> None:
        paho = self._paho
        while True:
            paho.loop_read()
            sock = paho.socket()
            if self._resume is not None or sock is None or not getattr(sock, "pending", int)():
                return


def _handing_to(receive: Callable[[aiomqtt.Message], None]) -> type[asyncio.Queue[aiomqtt.Message]]:
    """A queue that keeps nothing: what is put into it is handled there and then."""

    class Hatch(asyncio.Queue[aiomqtt.Message]):
        def put_nowait(self, item: aiomqtt.Message) -> None:
            receive(item)

    return Hatch


def _silent() -> logging.Logger:
    """A logger that says nothing: whatever it would say is raised, and told once, in one line."""
    logger = logging.getLogger("pads.mqtt")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _is_login(exc: aiomqtt.MqttCodeError) -> bool:
    """Bad user name or password, not authorised, banned; in the codes of MQTT 3.1.1 and 5."""
    return getattr(exc.rc, "value", exc.rc) in (4, 5, 134, 135, 138)


def _code(exc: BaseException) -> str:
    """The fault in words; the library's own code and its "Unspecified error" tell a reader nothing."""
    text = str(exc)
    text = text.partition("] ")[2] if text.startswith("[code:") else text
    return "the connection was lost" if text in ("", "Unspecified error") else text
