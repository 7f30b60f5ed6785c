"""Who speaks and where the gate stands, in the words that every view uses."""

from __future__ import annotations

from ..frames import TurnState
from .state import Seen


def speaker(seen: Seen) -> str:
    """Who speaks."""
    playing = seen.reply is not None and seen.reply.playing
    if seen.ended:
        return "the talk is over"
    if seen.reply is not None and seen.reply.held:
        return "PADS holds on while you speak" if seen.speaking else "PADS holds on"
    if seen.speaking:
        return "you speak over PADS" if playing else "you speak"
    if playing:
        return "PADS speaks"
    match seen.state:
        case TurnState.PAUSED:
            return "you pause"
        case TurnState.RESPONDING:
            return "PADS is about to answer"
        case _:
            return "PADS listens"


def gate(seen: Seen) -> str:
    """Where the gate stands."""
    reply = seen.reply
    match seen.state:
        case TurnState.IDLE:
            return "idle"
        case TurnState.LISTENING:
            return "listening"
        case TurnState.PAUSED if reply is not None and reply.prepared and not reply.committed:
            return "paused: a reply is ready, unheard" if reply.text else "paused: a reply is being prepared"
        case TurnState.PAUSED:
            return "paused: waiting"
        case TurnState.RESPONDING if reply is not None and reply.held:
            return "held: an interruption or not?"
        case TurnState.RESPONDING:
            prepared = reply is not None and reply.prepared
            return "turn over: the prepared reply is used" if prepared else "turn over: answering"
