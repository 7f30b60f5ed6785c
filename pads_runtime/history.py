"""What was said so far, and the messages that the model is given of it.

The history holds what happened: two rows of the user's follow each other where a turn got no answer, two of the
agent's where a text was spoken from outside. Many chat templates refuse that, so the *prompt* joins neighbours of one
role, and what the agent said before the user's first word goes to the system message.
"""

from __future__ import annotations

from collections.abc import Sequence

from .config import PadsSettings
from .frames import Message, Role

TOKENS_A_ROW = 6
"""No row takes fewer in a prompt: its marks and one word."""


class History:
    """The latest rows of a talk. Rows that no prompt of ``n_ctx`` tokens could hold are forgotten.

    They go by halves, so that the beginning of the prompt, which the engine has cached, seldom changes.
    """

    def __init__(self, system_prompt: str, n_ctx: int) -> None:
        self._system = system_prompt
        self._keep = max(2, n_ctx // TOKENS_A_ROW)
        self._rows: list[Message] = []

    @property
    def rows(self) -> tuple[Message, ...]:
        """The rows, oldest first."""
        return tuple(self._rows)

    def add(self, row: Message) -> None:
        """Something was said."""
        self._rows.append(row)
        if len(self._rows) > 2 * self._keep:
            first = len(self._rows) - self._keep
            while first < len(self._rows) - 1 and self._rows[first].role is not Role.USER:
                first += 1
            del self._rows[:first]

    def prompt(self, rows: Sequence[Message], said: str) -> list[Message]:
        """The messages of a prompt that ends with ``said``, the user's words, after ``rows``."""
        joined: list[Message] = []
        for row in (*rows, Message(Role.USER, said)):
            if joined and joined[-1].role is row.role:
                between = "\n" if row.role is Role.USER else " "  # the user's rows have no full stop
                joined[-1] = Message(row.role, f"{joined[-1].text}{between}{row.text}")
            else:
                joined.append(row)
        system = self._system
        if joined[0].role is Role.AGENT:
            system = f'{system}\n\nYou have already said: "{joined.pop(0).text}"'
        return [Message(Role.SYSTEM, system), *joined]


def settings_key(settings: PadsSettings) -> str:
    """Everything about the model and the prompt that a reply depends on besides history and words."""
    e = settings.engine
    depth = f"{e.serve}|{e.sampling_rule}"
    if e.serve == "confident" or (e.sampling_rule == "leviathan" and e.temperature):
        depth += f"|{e.exit_layer}|{e.draft_len}|{e.draft_vocab}|{e.translator}|{e.exit_policy}|{e.confident_threshold}"
        depth += f"|{settings.acts.model}" if e.by_act else ""
    drawn = f"{e.temperature}|{e.top_p}|{e.top_k}|{e.seed}"
    return f"{e.model}|{e.n_ctx}|{e.max_reply_tokens}|{drawn}|{depth}|{e.system_prompt}"
