"""What others may tell a talk, message by message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bus_rig import Orders

from pads_runtime.bus.hermes import HermesTranslator
from pads_runtime.bus.inbound import Inbound
from pads_runtime.config import BusSettings
from pads_runtime.errors import InputError
from pads_runtime.frames import TraceEvent

OURS = "pads-kitchen-talk0001-1"


def listening(**fields: Any) -> tuple[Inbound, Orders]:
    """An Inbound of site kitchen with Hermes, whose first turn is open."""
    settings = BusSettings.model_validate({"site": "kitchen", "hermes": True, **fields})
    sessions = HermesTranslator("kitchen", "talk0001", give_transcripts=False)
    sessions.letters(TraceEvent(1.0, "state_changed", {"turn": 1, "before": "idle", "state": "listening"}))
    orders = Orders()
    return Inbound(settings, orders, sessions), orders


def raw(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload).encode()


@pytest.mark.parametrize(
    ("topic", "payload", "order"),
    [
        ("pads/kitchen/in/transcript", {"text": "what is", "final": False}, [("hear", "what is", False)]),
        ("pads/kitchen/in/transcript", {"text": "what is"}, [("hear", "what is", True)]),
        ("pads/kitchen/in/say", {"text": "  tea \n is\u0000ready "}, [("say", "tea is ready")]),
        ("pads/kitchen/in/say", {"text": "Grüße", "more": [1]}, [("say", "Grüße")]),
        ("pads/kitchen/in/mute", {"muted": True}, [("mute", True)]),
        ("pads/kitchen/in/mute", {"muted": False}, [("mute", False)]),
        ("pads/kitchen/in/mute", b"", [("mute", True)]),
        ("pads/kitchen/in/stop", b"", [("stop",)]),
        ("pads/kitchen/in/repeat", {}, [("repeat",)]),
        ("hermes/asr/textCaptured", {"text": "hello", "siteId": "kitchen"}, [("hear", "hello", True)]),
        ("hermes/asr/textCaptured", {"text": "hello", "siteId": "cellar"}, []),
        ("hermes/asr/textCaptured", {"text": "hello"}, []),
        ("hermes/tts/say", {"text": "hi", "siteId": "kitchen", "lang": None, "id": "1"}, [("say", "hi")]),
        ("hermes/tts/say", {"text": 5, "siteId": "cellar"}, []),
        (
            "hermes/dialogueManager/startSession",
            {"siteId": "kitchen", "init": {"type": "notification", "text": "the bell"}},
            [("say", "the bell")],
        ),
        ("hermes/dialogueManager/startSession", {"siteId": "kitchen", "init": {"type": "action"}}, []),
        ("hermes/dialogueManager/continueSession", {"sessionId": OURS, "text": "which one"}, [("say", "which one")]),
        ("hermes/dialogueManager/continueSession", {"sessionId": "another", "text": "which one"}, []),
        (
            "hermes/dialogueManager/endSession",
            {"sessionId": OURS, "text": "it is on"},
            [("stop",), ("say", "it is on")],
        ),
        ("hermes/dialogueManager/endSession", {"sessionId": OURS}, [("stop",)]),
        ("hermes/dialogueManager/endSession", {"sessionId": ["x"], "text": "no"}, []),
    ],
)
def test_an_order_means(topic: str, payload: Any, order: list[Any]) -> None:
    inbound, orders = listening()
    assert inbound.take(topic, raw(payload), False, 0.0) is None
    assert orders.heard == order
    assert not inbound.refused


def test_a_message_without_a_site_is_for_the_site_called_default() -> None:
    inbound, orders = listening(site="default")
    inbound.take("hermes/tts/say", b'{"text": "hi"}', False, 0.0)
    inbound.take("hermes/tts/say", b'{"text": "hi", "siteId": null}', False, 0.0)
    assert orders.heard == [("say", "hi")] * 2


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'{"text": "\xe9"}', "not UTF-8"),
        (b'{"text": "\\ud83d"}', "not UTF-8"),
        (b"tea is ready", "not JSON"),
        (b"[" * 10_000, "not JSON"),
        (b'{"text": "tea"', "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b'"tea"', "not an object"),
        (b"null", "not an object"),
        (b"", "no text"),
        (b"{}", "no text"),
        (b'{"text": null}', "no text"),
        (b'{"text": ["tea"]}', "no text"),
        (b'{"text": " \\u0000\\n "}', "no text"),
        (b'{"text": "' + b"x" * 5000 + b'"}', "too long"),
        (b'{"text": "' + b"x" * 20_000 + b'"}', "too long"),
    ],
)
def test_a_payload_that_cannot_be_used_is_refused_with_its_reason(payload: bytes, reason: str) -> None:
    inbound, orders = listening()
    assert inbound.take("pads/kitchen/in/say", payload, False, 0.0) == reason
    assert (orders.heard, dict(inbound.refused)) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("pads/kitchen/in/mute", {"muted": "yes"}, "muted is not true or false"),
        ("pads/kitchen/in/transcript", {"text": "a", "final": 1}, "final is not true or false"),
        ("pads/kitchen/in/quit", {}, "unknown topic"),
        ("hermes/dialogueManager/startSession", {"siteId": "kitchen", "init": "now"}, "no init"),
    ],
)
def test_an_order_of_the_wrong_shape_is_refused(topic: str, payload: Any, reason: str) -> None:
    inbound, orders = listening()
    assert inbound.take(topic, raw(payload), False, 0.0) == reason
    assert orders.heard == []


def test_a_retained_order_is_refused() -> None:
    inbound, orders = listening()
    assert inbound.take("pads/kitchen/in/stop", b"", True, 0.0) == "retained"
    assert orders.heard == []


def test_a_flood_on_one_topic_leaves_the_others_open() -> None:
    inbound, orders = listening(in_per_s=10.0)
    for i in range(1000):
        inbound.take("pads/kitchen/in/say", b'{"text": "hi"}', False, i / 1000)
    inbound.take("pads/kitchen/in/stop", b"", False, 1.0)
    assert orders.heard.count(("say", "hi")) == 29  # 20 at once, and what 0.999 s add
    assert inbound.refused["too many"] == 971
    assert orders.heard[-1] == ("stop",)


def test_what_the_talk_cannot_do_is_refused_and_not_raised() -> None:
    class Deaf(Orders):
        def hear(self, text: str, final: bool) -> None:
            raise InputError("this talk has a recogniser of its own")

    inbound = Inbound(BusSettings(), Deaf())
    reason = inbound.take("pads/default/in/transcript", b'{"text": "hi"}', False, 0.0)
    assert reason == "the talk cannot: this talk has a recogniser of its own"
    assert dict(inbound.refused) == {"the talk cannot": 1}


def test_without_the_switch_nothing_of_hermes_is_listened_to() -> None:
    assert not [topic for topic in Inbound(BusSettings(), Orders()).topics if topic.startswith("hermes")]


def test_who_gives_transcripts_takes_none() -> None:
    inbound, _ = listening(hermes_transcripts="give")
    assert "hermes/asr/textCaptured" not in inbound.topics and "hermes/tts/say" in inbound.topics
