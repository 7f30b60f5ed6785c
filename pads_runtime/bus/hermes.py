"""The Hermes side: the topics and JSON fields that Rhasspy-style homes speak, in both directions. Pure.

Topics and fields are those of the Hermes protocol as rhasspy-hermes defines it (dialogue.py, asr.py, tts.py of
github.com/rhasspy/rhasspy-hermes). One turn of the user's is one Hermes session. A message without siteId is for the
site "default".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..frames import TraceEvent
from .messages import encode
from .outbox import Grade, Letter

SESSIONS = "hermes/dialogueManager/"
TEXT_CAPTURED = "hermes/asr/textCaptured"
SAY = "hermes/tts/say"
SAY_FINISHED = "hermes/tts/sayFinished"
DEFAULT_SITE = "default"
REMEMBERED = 32
"""Sessions that a late continueSession or endSession may still name, and texts to say whose end is still to be told."""
MAX_NAME = 200
"""Characters of an id of someone else's."""


class HermesTranslator:
    """Turns the events of one talk, in order, into Hermes messages, and knows which sessions are ours."""

    def __init__(self, site: str, talk: str, give_transcripts: bool) -> None:
        self._site, self._prefix = site, f"pads-{site}-{talk}-"
        self._give = give_transcripts
        self._open: str | None = None
        self._ours: deque[str] = deque(maxlen=REMEMBERED)
        self._words = ""
        self._interrupted = False
        self._began_s = self._voiced_s = 0.0
        self._to_say: deque[tuple[str, str, str]] = deque(maxlen=REMEMBERED)
        self._saying = ""
        self._refusals = 0

    def asked_to_say(self, words: str, fields: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Hand the ``words`` of a hermes/tts/say to the talk; unless it refuses, their end is told under that id."""
        refusals = self._refusals
        say(words)
        if self._refusals == refusals:
            self._to_say.append((words, _name(fields.get("id")), _name(fields.get("sessionId"))))

    def is_ours(self, session: object) -> bool:
        """Whether ``session`` is the open turn's or that of a recent one."""
        return session in self._ours

    def is_open(self, session: object) -> bool:
        """Whether ``session`` is the open turn's."""
        return session is not None and session == self._open

    def letters(self, event: TraceEvent) -> list[Letter]:
        """What ``event`` means in Hermes."""
        fields = event.fields
        match event.kind:
            case "speech_started":
                self._began_s = fields.get("onset_s", event.t_s)
            case "state_changed" if fields.get("state") == "listening":
                return self._begin(f"{self._prefix}{fields.get('turn')}")
            case "speech_paused":
                self._voiced_s = fields.get("last_voiced_s", event.t_s)
            case "transcript_updated":
                self._words = f"{fields.get('stable', '')} {fields.get('unstable', '')}".strip()
            case "playback_started":  # from its first sound on a reply cannot be undone: the turn's words are final
                return self._captured()
            case "reply_interrupted":
                self._interrupted = True
            case "say_refused":
                self._refusals += 1
            case "say_started":
                self._saying = fields.get("text", "")
            case "say_finished" | "say_withdrawn":
                return self._said([say for say in self._to_say if say[0] == self._saying][:1])
            case "stop_asked":  # what waited to be said is forgotten with it
                return self._said(list(self._to_say))
            case "reply_served":
                return self._end("abortedByUser" if self._interrupted else "nominal")
            case "turn_closed":
                reason = "error" if self._words else "intentNotRecognized"  # with words, it was the reply that failed
                return [*self._captured(), *self._end(reason)]
            case "session_failed":
                return self._end("error")
            case "session_ended":
                return self._end("abortedByUser")
        return []

    def _begin(self, session: str) -> list[Letter]:
        if session in self._ours:
            return []  # the turn went on
        ended = self._end("nominal")
        self._open, self._words, self._interrupted = session, "", False
        self._ours.append(session)
        return [*ended, self._letter(f"{SESSIONS}sessionStarted", {"sessionId": session, "customData": ""})]

    def _captured(self) -> list[Letter]:
        text, self._words = self._words, ""
        if not self._give or self._open is None or not text:
            return []
        seconds = round(max(0.0, self._voiced_s - self._began_s), 3)
        # The field is not optional and the recogniser gives no probability: 1 says no more than "this was heard".
        fields = {"text": text, "likelihood": 1.0, "seconds": seconds, "sessionId": self._open}
        return [self._letter(TEXT_CAPTURED, fields)]

    def _said(self, over: Sequence[tuple[str, str, str]]) -> list[Letter]:
        letters = []
        for say in over:
            self._to_say.remove(say)
            letters.append(self._letter(SAY_FINISHED, {"id": say[1], "sessionId": say[2]}))
        return letters

    def _end(self, reason: str) -> list[Letter]:
        session, self._open = self._open, None
        if session is None:
            return []
        fields = {"sessionId": session, "customData": "", "termination": {"reason": reason}}
        return [self._letter(f"{SESSIONS}sessionEnded", fields)]

    def _letter(self, topic: str, fields: Mapping[str, Any]) -> Letter:
        return Letter(topic, encode({"siteId": self._site, **fields}), Grade.PROMISED)


def is_for(site: str, fields: Mapping[str, Any]) -> bool:
    """Whether a Hermes message is for ``site``."""
    named = fields.get("siteId")
    return (DEFAULT_SITE if named in (None, "") else named) == site


def _name(value: object) -> str:
    return value[:MAX_NAME] if isinstance(value, str) else ""
