"""What the model is given of the talk, and what is forgotten."""

from __future__ import annotations

import itertools

import pytest

from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import ModelError
from pads_runtime.frames import Message, Role
from pads_runtime.history import TOKENS_A_ROW, History

USER, AGENT, SYSTEM = Role.USER, Role.AGENT, Role.SYSTEM
STRICT = ChatTemplate(
    "{% for m in messages %}{% if not loop.first and (m.role == 'user') != (loop.index0 % 2 == 1) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}",
    "",
    "",
)
"""As several published models have it: system, then user and assistant in turn."""


def rows(*pairs: tuple[Role, str]) -> tuple[Message, ...]:
    return tuple(Message(role, text) for role, text in pairs)


@pytest.mark.parametrize(
    "before",
    [
        (),
        rows((USER, "Book it"), (AGENT, "Done.")),
        rows((USER, "Book it"), (USER, "Hello")),
        rows((AGENT, "Tea is ready."), (AGENT, "It gets cold.")),
        rows((AGENT, "Tea is ready."), (USER, "Thanks"), (AGENT, "Welcome."), (AGENT, "The door."), (USER, "Go")),
    ],
)
def test_a_template_that_wants_roles_in_turn_accepts_any_history(before: tuple[Message, ...]) -> None:
    prompt = History("Be brief.", 512).prompt(before, "What now")
    STRICT.layout(tuple(message.role for message in prompt), True)
    told = " ".join(message.text for message in prompt)
    assert all(row.text in told for row in before)
    assert prompt[-1].role is USER and prompt[-1].text.endswith("What now")


def test_that_template_refuses_the_rows_as_they_are() -> None:
    with pytest.raises(ModelError, match="alternate"):
        STRICT.layout((SYSTEM, USER, USER), True)


def test_a_history_in_turn_is_given_as_it_is() -> None:
    before = rows((USER, "Book it"), (AGENT, "Done."))
    expected = [Message(SYSTEM, "Be brief."), *before, Message(USER, "Why")]
    assert History("Be brief.", 512).prompt(before, "Why") == expected


def test_rows_that_no_prompt_could_hold_are_forgotten_by_halves_and_a_turn_is_left_whole() -> None:
    history = History("Be brief.", 60 * TOKENS_A_ROW)
    lengths = []
    for i in range(1000):
        history.add(Message(USER if i % 3 == 0 else AGENT, str(i)))
        lengths.append(len(history.rows))
    assert max(lengths) == 120
    assert sum(after < before for before, after in itertools.pairwise(lengths)) < 20
    assert history.rows[-1].text == "999"
    assert history.rows[0].role is USER
    texts = [int(row.text) for row in history.rows]
    assert texts == list(range(texts[0], 1000))
