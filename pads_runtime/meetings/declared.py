"""The declared reply of a rehearsal: when its parts would be there, by the declared costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Costs
from ..gate.premise import Premise


@dataclass(frozen=True, slots=True)
class ReplyShape:
    """What every reply is taken to be; the defaults are near the means of the scripted talk."""

    tokens: int = 40
    first_phrase_tokens: int = 10
    chars_per_token: float = 4.1
    chars_per_s: float = 18.0


@dataclass
class DeclaredReply:
    """A reply on its way: when its parts are there, and what of it has sounded."""

    turn: int
    premise: Premise
    prepared: bool
    began_s: float
    first_token_s: float
    speakable_s: float
    generated_s: float
    lasts_s: float
    ticket: int = 0
    """Of its latest playback: what was planned for an earlier one no longer counts."""
    playing_since_s: float | None = None
    played_s: float = 0.0

    def made_by(self, now_s: float, shape: ReplyShape, costs: Costs) -> int:
        """Tokens that it has at ``now_s``."""
        if now_s < self.first_token_s:
            return 0
        step_s = costs.decode_step_s
        return min(shape.tokens, 1 + int((now_s - self.first_token_s) / step_s + 1e-9)) if step_s else shape.tokens

    def spent_ms(self, now_s: float) -> float:
        """Model time that it has taken by ``now_s``."""
        return round(max(0.0, min(now_s, self.generated_s) - self.began_s) * 1000.0, 3)

    def stop(self, now_s: float) -> None:
        """Its sound stops."""
        if self.playing_since_s is not None:
            self.played_s += now_s - self.playing_since_s
            self.playing_since_s = None


def declared(
    shape: ReplyShape, costs: Costs, new_tokens: int, reply: tuple[int, Premise, bool], began_s: float
) -> DeclaredReply:
    """``reply`` = (turn, premise, prepared), begun at ``began_s`` with ``new_tokens`` of its prompt not yet read."""
    turn, premise, prepared = reply
    first_s = began_s + costs.prefill_base_s + new_tokens * costs.prefill_token_s + costs.decode_step_s
    phrase_s = first_s + (shape.first_phrase_tokens - 1) * costs.decode_step_s
    chars = shape.first_phrase_tokens * shape.chars_per_token
    return DeclaredReply(
        turn=turn,
        premise=premise,
        prepared=prepared,
        began_s=began_s,
        first_token_s=first_s,
        speakable_s=phrase_s + costs.synth_base_s + chars * costs.synth_per_char_s,
        generated_s=first_s + (shape.tokens - 1) * costs.decode_step_s,
        lasts_s=shape.tokens * shape.chars_per_token / shape.chars_per_s,
    )


def tokens_of(text: str) -> int:
    """Tokens of a text, at 1.12 a word: the embedded model's tokeniser on 44,724 words of nine AMI meetings."""
    return round(1.12 * len(text.split()))
