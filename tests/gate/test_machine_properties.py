"""The turn machine under any sequence of events: what must hold whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pads_runtime.config import PadsSettings, validate
from pads_runtime.frames import (
    ActClassified,
    GateMode,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TranscriptUpdated,
    TurnEndPredicted,
    TurnState,
)
from pads_runtime.gate.events import (
    Action,
    Answer,
    Close,
    Commit,
    Confirm,
    Discard,
    Event,
    Hold,
    Ignore,
    Interrupt,
    PlaybackFinished,
    PlaybackStarted,
    Prepare,
    QuitAsked,
    Reopen,
    ReplyCut,
    ReplyFailed,
    ReplyProgressed,
    Resume,
    Revise,
    Say,
    SayAsked,
    StopAsked,
    WordsGiven,
)
from pads_runtime.gate.machine import TurnMachine
from pads_runtime.turn.endpointing import confirm_after_s

KINDS = (
    SpeechStarted,
    SpeechPaused,
    SpeechResumed,
    TranscriptUpdated,
    TurnEndPredicted,
    ActClassified,
    PlaybackStarted,
    ReplyProgressed,
    PlaybackFinished,
    ReplyFailed,
    WordsGiven,
    SayAsked,
    StopAsked,
    QuitAsked,
)
TEXTS = ("", "...", "book it", "Book it.", "book him", "book him for two", "mhm")
MAX_TURN_S = 5.0


@dataclass
class Ledger:
    """Watches the actions as a session would carry them out, and objects to what it could not."""

    machine: TurnMachine
    branch: int | None = None
    serving: int | None = None
    held: bool = False
    closed: set[int] = field(default_factory=set)
    heard: bool = False
    """What the next reply that is revised turns out to have been."""
    kinds: set[type] = field(default_factory=set)
    now_s = 0.0
    opened = 0
    ended = 0

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            assert action.turn not in self.closed, f"{action} after its turn was over"
            self._apply(action)
        if any(isinstance(action, Revise) for action in actions):  # the session answers at once
            self.take(self.machine.on(ReplyCut(self.now_s, self.heard)))
            return
        assert (self.branch is not None) == (self.machine.branch is not None)
        assert (self.serving is not None) == (self.machine.state is TurnState.RESPONDING)

    def _apply(self, action: Action) -> None:
        self.kinds.add(type(action))
        match action:
            case Prepare(turn):
                assert self.branch is None and self.serving is None
                self.branch, self.opened = turn, self.opened + 1
            case Discard(turn):
                assert self.branch == turn
                self.branch, self.ended = None, self.ended + 1
            case Commit(turn):
                assert self.branch == turn and self.serving is None
                self.branch, self.serving, self.ended = None, turn, self.ended + 1
            case Answer(turn) | Say(turn):
                assert self.serving is None and self.branch is None
                self.serving, self.held = turn, False
            case Interrupt(turn):
                assert self.serving == turn
                self.serving, self.held = None, False
            case Hold(turn):
                assert self.serving == turn and not self.held
                self.held = True
            case Resume(turn):
                assert self.serving == turn and self.held
                self.held = False
            case Revise(turn):
                assert self.serving == turn and not self.held
                self.serving = None
            case Reopen(turn):
                assert self.serving == turn
                self.serving = None
            case Close(turn):
                assert self.branch is None
                self.serving = None
                self.closed.add(turn)
            case Confirm(turn) | Ignore(turn):
                assert turn == self.machine.turn

    def on(self, event: Event) -> None:
        """A reply's own end is the session's doing: the books follow it."""
        if isinstance(event, ReplyFailed) and self.branch is not None:
            self.branch, self.ended = None, self.ended + 1
        self.now_s = event.t_s
        actions = self.machine.on(event)
        if isinstance(event, PlaybackFinished | ReplyFailed):
            self.serving, self.held = None, False
        self.take(actions)

    def pass_time(self, until_s: float) -> None:
        """Tick at every deadline up to ``until_s``; a deadline must pass when it has come."""
        stuck = 0
        while (due_s := self.machine.deadline_s()) is not None and due_s <= until_s:
            self.now_s = due_s
            self.take(self.machine.tick(due_s))
            stuck = stuck + 1 if self.machine.deadline_s() == due_s else 0
            assert stuck < 3, "time stands still"


def build(mode: GateMode, wait_s: float, min_speech_s: float, asr: str = "whisper") -> TurnMachine:
    tree = {
        "asr": {"kind": asr},
        "gate": {"mode": mode, "theta_end": 0.5, "theta_deep": 0.5},
        "turn": {"max_turn_s": MAX_TURN_S, "transcript_wait_s": wait_s},
        "barge_in": {"min_speech_s": min_speech_s},
    }
    chosen = validate(PadsSettings, tree)
    return TurnMachine(chosen, "s", lambda p_end: confirm_after_s(p_end, chosen.turn))


def event_of(kind: type, t_s: float, lag_s: float, text: str, p: float, final: bool) -> Event:
    match kind:
        case _ if kind in (SpeechStarted, SpeechResumed):
            return kind(t_s, max(0.0, t_s - lag_s))  # type: ignore[no-any-return]
        case _ if kind is SpeechPaused:
            return SpeechPaused(t_s, max(0.0, t_s - lag_s))
        case _ if kind is TranscriptUpdated:
            return TranscriptUpdated(t_s, text, "", final, max(0.0, t_s - lag_s))
        case _ if kind is TurnEndPredicted:
            return TurnEndPredicted(t_s, p, max(0.0, t_s - lag_s), p if final else None)
        case _ if kind is ActClassified:
            return ActClassified(t_s, p, text)
        case _ if kind is WordsGiven:
            return WordsGiven(t_s, text, final)
        case _ if kind is SayAsked:
            return SayAsked(t_s, text)
        case _:
            return kind(t_s)  # type: ignore[no-any-return]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([0.0, 0.01, 0.1, 0.4, 0.7, 1.9, 3.1, 11.0]),
        st.sampled_from([0.0, 0.0, 0.2, 1.0]),
        st.sampled_from(TEXTS),
        st.sampled_from([0.0, 0.9]),
        st.booleans(),
    ),
    max_size=40,
)
MODES = st.sampled_from(list(GateMode))

WORKS = [
    (SpeechStarted, 1.0, 0.1, "", 0.0, False),
    (SpeechPaused, 1.0, 0.2, "", 0.0, False),
    (TranscriptUpdated, 0.1, 0.0, "book it", 0.0, True),
    (PlaybackStarted, 1.9, 0.0, "", 0.0, False),
]


HELD = [
    *WORKS,
    (SpeechStarted, 0.4, 0.1, "", 0.0, False),
    (ReplyProgressed, 0.7, 0.0, "", 0.0, False),
]
"""A reply is held; silence lets it go on."""


def run_all(machine: TurnMachine, steps: list[tuple]) -> tuple[Ledger, float]:  # type: ignore[type-arg]
    ledger, now_s = Ledger(machine), 0.0
    for kind, gap_s, lag_s, text, p, final in steps:
        now_s += gap_s
        ledger.heard = final
        ledger.pass_time(now_s)
        ledger.on(event_of(kind, now_s, lag_s, text, p, final))
    return ledger, now_s


@settings(max_examples=400, deadline=None)
@given(STEPS, MODES, st.sampled_from([0.0, 3.0]), st.sampled_from([0.0, 0.5]), st.sampled_from(["whisper", "external"]))
@example(WORKS, GateMode.ALWAYS, 3.0, 0.5, "whisper")
@example(HELD, GateMode.ALWAYS, 3.0, 0.5, "external")
def test_any_sequence_keeps_the_books_and_ends_in_idle(
    steps: list[tuple],  # type: ignore[type-arg]
    mode: GateMode,
    wait_s: float,
    min_speech_s: float,
    asr: str,
) -> None:
    machine = build(mode, wait_s, min_speech_s, asr)
    ledger, now_s = run_all(machine, steps)
    # From here on: silence. Replies end by themselves or by the watchdog, and time does the rest.
    ledger.on(SpeechPaused(now_s + 0.1, now_s))
    for _ in range(13):  # as many texts may wait to be spoken as the machine keeps, and some turns may be open
        now_s += 100.0
        ledger.pass_time(now_s)
        assert not ledger.held, "a held reply is never forgotten"
        if machine.state is TurnState.RESPONDING:
            ledger.on(PlaybackFinished(now_s))
    assert machine.quiet
    assert machine.deadline_s() is None
    assert ledger.opened == ledger.ended


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_the_mode_never_opens_no_branch(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    ledger, _ = run_all(build(GateMode.NEVER, 3.0, 0.5), steps)
    assert ledger.opened == 0


@settings(max_examples=100, deadline=None)
@given(STEPS, MODES)
def test_ticks_before_the_deadline_change_nothing(steps: list[tuple], mode: GateMode) -> None:  # type: ignore[type-arg]
    machine = build(mode, 3.0, 0.5)
    _, now_s = run_all(machine, steps)
    due_s = machine.deadline_s()
    before = (machine.state, machine.turn, machine.branch, due_s)
    if due_s is None or due_s > now_s + 1e-6:
        assert machine.tick(now_s) == []
        assert (machine.state, machine.turn, machine.branch, machine.deadline_s()) == before


def test_the_worked_example_opens_and_commits_a_branch() -> None:
    """Else the properties above could hold because nothing ever happens."""
    ledger, _ = run_all(build(GateMode.ALWAYS, 3.0, 0.5), WORKS)
    assert (ledger.opened, ledger.ended, ledger.serving) == (1, 1, 1)


def test_the_held_example_holds_a_reply_and_lets_it_go_on() -> None:
    ledger, now_s = run_all(build(GateMode.ALWAYS, 3.0, 0.5), HELD)
    assert ledger.held
    ledger.pass_time(now_s + 10.0)
    assert {Hold, Resume} <= ledger.kinds and ledger.serving == 1
