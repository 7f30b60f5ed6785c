"""What others may tell a talk: each message is judged, and either obeyed at once or refused with a count.

A message is refused when it is retained (an old order the broker kept), too long, too many, not UTF-8 JSON of the
expected shape, or when the talk cannot do it. Nothing is queued here, so a flood costs no memory; each topic has a
rate of its own, so a flood on one does not keep a "stop" on another from being heard.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ..config import BusSettings
from ..controls import Controls
from ..errors import PadsError
from . import hermes
from .messages import MAX_TEXT
from .pace import Bucket

Order = Callable[[Controls], None]


class Refused(Exception):
    """A message that is not obeyed; the text is the reason it is counted under."""


class Inbound:
    """Judges and obeys the messages on ``topics``. ``refused`` counts the others by reason."""

    def __init__(
        self, settings: BusSettings, controls: Controls, sessions: hermes.HermesTranslator | None = None
    ) -> None:
        self._settings, self._controls, self._sessions = settings, controls, sessions
        self._base = f"pads/{settings.site}/in/"
        self.topics = topics_of(settings)
        self._buckets = {topic: Bucket(settings.in_per_s, 2.0 * settings.in_per_s) for topic in self.topics}
        self.taken = 0
        self.refused: Counter[str] = Counter()

    def take(self, topic: str, payload: bytes, retained: bool, now_s: float) -> str | None:
        """Obey one message, or return the reason why not. Never raises for what the message holds."""
        try:
            order = self._judge(topic, payload, retained, now_s)
            if order is not None:
                self._obey(order)
                self.taken += 1
        except Refused as exc:
            self.refused[str(exc).partition(":")[0]] += 1  # few reasons, whatever a message or an error holds
            return str(exc)
        return None

    def _judge(self, topic: str, payload: bytes, retained: bool, now_s: float) -> Order | None:
        bucket = self._buckets.get(topic)
        if bucket is None:
            raise Refused("unknown topic")
        if retained:
            raise Refused("retained")
        if not bucket.take(now_s):
            raise Refused("too many")
        if len(payload) > self._settings.max_in_bytes:
            raise Refused("too long")
        fields = _object(payload)
        if topic.startswith(self._base):
            return ORDERS[topic.removeprefix(self._base)](fields)
        return self._hermes_order(topic, fields)

    def _obey(self, order: Order) -> None:
        try:
            order(self._controls)
        except PadsError as exc:
            raise Refused(f"the talk cannot: {exc}") from None

    # ------------------------------------------------------------ Hermes

    def _hermes_order(self, topic: str, fields: Mapping[str, Any]) -> Order | None:
        """The order in a Hermes message; None for one that is another site's or says nothing."""
        assert self._sessions is not None
        name = topic.removeprefix(hermes.SESSIONS)
        if name in ("continueSession", "endSession"):  # these name a session and no site
            session = fields.get("sessionId")
            if not self._sessions.is_ours(session):
                return None
            # The answer to a turn comes from whoever ended its session: the agent's own is not wanted.
            ends = name == "endSession" and self._sessions.is_open(session)
            return _stop_then_say(ends, _optional_text(fields))
        if not hermes.is_for(self._settings.site, fields):
            return None
        if topic == hermes.TEXT_CAPTURED:
            words = _text(fields)
            return lambda controls: controls.hear(words, final=True)
        if topic == hermes.SAY:
            text, sessions = _text(fields), self._sessions
            return lambda controls: sessions.asked_to_say(text, fields, controls.say)
        start = fields.get("init")
        if not isinstance(start, dict):
            raise Refused("no init")
        return _stop_then_say(False, _optional_text(start))


# ---------------------------------------------------------------- reading


def _object(payload: bytes) -> dict[str, Any]:
    """The JSON object of a payload; an empty payload is an empty object."""
    if not payload:
        return {}
    try:
        tree = json.loads(payload.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused("not UTF-8") from None
    except (ValueError, RecursionError):  # the latter for brackets without end
        raise Refused("not JSON") from None
    if not isinstance(tree, dict):
        raise Refused("not an object")
    return tree


def _text(fields: Mapping[str, Any]) -> str:
    """The text to say or that was heard: white space and control characters become single spaces."""
    text = fields.get("text")
    if not isinstance(text, str):
        raise Refused("no text")
    if len(text) > MAX_TEXT:
        raise Refused("too long")
    if any("\ud800" <= character <= "\udfff" for character in text):  # JSON can spell half a character
        raise Refused("not UTF-8")
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not words:
        raise Refused("no text")
    return words


def _optional_text(fields: Mapping[str, Any]) -> str:
    return _text(fields) if fields.get("text") not in (None, "") else ""


def _flag(fields: Mapping[str, Any], name: str, default: bool) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise Refused(f"{name} is not true or false")
    return value


# ---------------------------------------------------------------- orders


def _hear(fields: Mapping[str, Any]) -> Order:
    words, final = _text(fields), _flag(fields, "final", True)
    return lambda controls: controls.hear(words, final=final)


def _say(fields: Mapping[str, Any]) -> Order:
    words = _text(fields)
    return lambda controls: controls.say(words)


def _mute(fields: Mapping[str, Any]) -> Order:
    muted = _flag(fields, "muted", True)
    return lambda controls: controls.mute(muted)


def _stop_then_say(stop: bool, words: str) -> Order | None:
    if not stop and not words:
        return None

    def order(controls: Controls) -> None:
        if stop:
            controls.stop_speaking()
        if words:
            controls.say(words)

    return order


ORDERS: Mapping[str, Callable[[Mapping[str, Any]], Order]] = {
    "transcript": _hear,
    "say": _say,
    "mute": _mute,
    "stop": lambda fields: lambda controls: controls.stop_speaking(),
    "repeat": lambda fields: lambda controls: controls.repeat(),
}
"""The last part of each topic below ``pads/<site>/in/``, and what it means."""


def topics_of(settings: BusSettings) -> tuple[str, ...]:
    """The topics to listen to."""
    own = (f"pads/{settings.site}/in/{name}" for name in ORDERS)
    if not settings.hermes:
        return tuple(own)
    take = (hermes.TEXT_CAPTURED,) if settings.hermes_transcripts == "take" else ()
    sessions = (hermes.SESSIONS + name for name in ("startSession", "continueSession", "endSession"))
    return (*own, *take, hermes.SAY, *sessions)
