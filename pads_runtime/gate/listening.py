"""The user's side of the turn machine: from the onset of speech to the words that are to be answered. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..config import PadsSettings
from ..frames import (
    Message,
    Role,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from . import events as e
from .backchannel import is_backchannel
from .events import Action
from .open_turn import OpenTurn
from .overlap import Overlap
from .premise import Premise, words_after

MAX_TO_SAY = 8
"""Texts that may wait to be spoken; the oldest is dropped."""


@dataclass
class Listening:
    """What the machine remembers, and how a turn of the user's opens, pauses, goes on and is settled."""

    settings: PadsSettings
    settings_key: str
    confirm_after_s: Callable[[float | None], float]
    """Silence that confirms the turn, from the latest p_end (None: not predicted in this pause)."""
    history: tuple[Message, ...] = ()
    lag_s: float = 0.0
    """How old what is known of the user's voice is: on a busy machine the ears fall behind."""
    state: TurnState = TurnState.IDLE
    turn: int = 0
    branch: Premise | None = None
    answered: Premise | None = None
    """What is being answered; None while a text is spoken that answers nothing."""
    to_say: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_TO_SAY))
    _open: OpenTurn = field(default_factory=OpenTurn)
    _overlap: Overlap | None = None
    _playing: bool = False
    _alive_s: float = 0.0
    _saying: str | None = None
    _revised: TranscriptUpdated | None = None
    _taken: str = ""
    """Words at the head of an outside recogniser's text that an earlier turn holds already."""

    @property
    def quiet(self) -> bool:
        """Nobody speaks and nothing waits to be spoken."""
        return self.state is TurnState.IDLE and not self.to_say

    @property
    def overlapped(self) -> bool:
        """The user speaks over the reply, and it is not decided what that means."""
        return self._overlap is not None

    # ------------------------------------------------------------ the turn

    def _speech(self, event: SpeechStarted | SpeechResumed) -> list[Action]:
        actions: list[Action] = []
        if self._open.confirmed_s is not None and self._overdue(event.t_s):
            return []  # closed by force while there was sound: more of it does not open the turn again
        if self.state is TurnState.IDLE:
            self._open_turn(event.onset_s)
        elif self.branch is not None:
            actions.append(self._drop("the user went on"))
        self.state = TurnState.LISTENING
        self._open.go_on()
        return actions

    def _open_turn(self, onset_s: float) -> None:
        self.turn += 1
        self._open = OpenTurn(started_s=onset_s)
        self.answered = None

    def _pause(self, event: SpeechPaused) -> list[Action]:
        if self.state is not TurnState.LISTENING:
            return []
        self.state = TurnState.PAUSED
        self._open.last_voiced_s = event.last_voiced_s
        return self._consider(event.t_s)

    def _predicted(self, event: TurnEndPredicted) -> list[Action]:
        """Answers may come before the pause is declared: the silence they heard had begun by then."""
        if self.state not in (TurnState.LISTENING, TurnState.PAUSED) or not self._open.predict(event):
            return []
        return self._consider(event.t_s)

    def _heard(self, event: TranscriptUpdated) -> list[Action]:
        if self.state is TurnState.IDLE:
            return []
        self._open.transcript = event
        actions: list[Action] = []
        if self.branch is not None and self._premise() != self.branch:
            actions.append(self._drop("the transcript changed"))
        if self._open.confirmed_s is not None and self._open.words_complete:
            return [*actions, *self._settle(event.t_s)]
        return [*actions, *self._consider(event.t_s)]

    def _new_words(self, event: e.WordsGiven) -> TranscriptUpdated:
        """What an outside recogniser says, without the words that an earlier turn holds already."""
        left = words_after(self._taken, event.text) if self._taken else None
        if left is None:
            self._taken = ""
        return TranscriptUpdated(event.t_s, event.text if left is None else left, "", event.final, event.t_s)

    def _heard_elsewhere(self, heard: TranscriptUpdated) -> list[Action]:
        """A final text where no speech was heard (another microphone) is a turn of its own; a repetition is none."""
        text = self._premise_of(heard.text).text
        said_again = self.answered is not None and text == self.answered.text
        late = heard.t_s <= self._alive_s + self.settings.turn.transcript_wait_s
        return [] if not heard.final or not text or (said_again and late) else self._take_up(heard)

    def _take_up(self, heard: TranscriptUpdated) -> list[Action]:
        """A turn whose words are all there."""
        self._open_turn(heard.t_s)
        self._open.last_voiced_s = self._open.confirmed_s = heard.t_s
        self._open.transcript = heard
        self.state = TurnState.PAUSED
        return [e.Confirm(self.turn, heard.t_s), *self._settle(heard.t_s)]

    def _consider(self, now_s: float) -> list[Action]:
        if self.state is not TurnState.PAUSED or self.branch is not None or not self._open.words_complete:
            return []
        if self._needs_no_answer() or not self._open.worth_preparing(now_s, self.settings.gate):
            return []
        self.branch = self._premise()
        return [e.Prepare(self.turn, self.branch)]

    def _settle(self, now_s: float, waited: bool = False) -> list[Action]:
        """The turn is confirmed; answer it if its words are known."""
        if not self._open.words_complete and not waited:
            return []
        premise = self._premise()
        actions: list[Action] = []
        if not premise.text or self._needs_no_answer():
            if self.branch is not None:
                actions.append(self._drop("no words"))
            nothing = "its words never came" if waited else "no words in it"
            actions.append(e.Close(self.turn, "a backchannel" if premise.text else nothing))
            self._to_idle(now_s)
            return actions
        if self.branch == premise:
            self.branch = None
            actions.append(e.Commit(self.turn))
        else:
            if self.branch is not None:
                actions.append(self._drop("the premise changed"))
            actions.append(e.Answer(self.turn, premise))
        self._respond(now_s, premise)
        return actions

    def _needs_no_answer(self) -> bool:
        """A short "uh-huh" to a statement, or to nothing, wants no answer; to a question it is one."""
        asked = self.history and self.history[-1].role is Role.AGENT and self.history[-1].text.rstrip().endswith("?")
        short = self._open.last_voiced_s - self._open.started_s <= self.settings.barge_in.backchannel_max_s
        return short and not asked and is_backchannel(self._open.text)

    # ------------------------------------------------------------ its end

    def _respond(self, now_s: float, premise: Premise | None) -> None:
        self.answered = premise
        self.state = TurnState.RESPONDING
        self._playing = False
        self._overlap = None
        self._saying = None
        self._alive_s = now_s

    def _unanswered(self, now_s: float, reason: str) -> e.Close:
        close = e.Close(self.turn, reason, self.answered.text if self.answered else "")
        self._to_idle(now_s)
        return close

    def _to_idle(self, now_s: float) -> None:
        self.state = TurnState.IDLE
        self.branch = self._overlap = self._saying = self._revised = None
        self._playing = False
        self._open.confirmed_s = None
        self._alive_s = now_s

    # ------------------------------------------------------------ helpers

    def _drop(self, reason: str) -> e.Discard:
        self.branch = None
        return e.Discard(self.turn, reason)

    def _premise(self) -> Premise:
        return self._premise_of(self._open.transcript.text if self._open.transcript else "")

    def _premise_of(self, text: str) -> Premise:
        return Premise.spoken(text, self.history, self.settings_key)

    def _overdue(self, now_s: float) -> bool:
        return self._open.overdue(now_s, self.settings.turn.max_turn_s)

    def _confirm_at_s(self) -> float:
        return self._open.last_voiced_s + self.confirm_after_s(self._open.p_end)
