from __future__ import annotations

import pytest

from pads_runtime.engine.template import ChatTemplate
from pads_runtime.errors import ModelError
from pads_runtime.frames import Role

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
USER, AGENT, SYSTEM = Role.USER, Role.AGENT, Role.SYSTEM


def layout(source: str, *roles: Role, header: bool = True) -> tuple[str | int, ...]:
    return ChatTemplate(source, "<s>", "</s>").layout(roles, header)


def test_texts_are_places_in_the_layout_never_part_of_it() -> None:
    assert layout(CHATML, SYSTEM, USER) == (
        "<|im_start|>system\n",
        0,
        "<|im_end|>\n<|im_start|>user\n",
        1,
        "<|im_end|>\n<|im_start|>assistant\n",
    )


def test_without_the_reply_header_the_layout_is_a_prefix() -> None:
    assert layout(CHATML, USER, header=False) == ("<|im_start|>user\n", 0, "<|im_end|>\n")


def test_a_template_may_use_begin_and_end_tokens_and_loop_controls() -> None:
    source = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% break %}{% endfor %}"
    assert layout(source, USER) == ("<s>", 0, "</s>")


def test_the_prompt_does_not_depend_on_the_day() -> None:
    source = (
        "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}no date{% endif %}{{ messages[0].content }}"
    )
    assert layout(source, USER) == ("no date", 0)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% for m in messages %}", "cannot be read"),
        ("{{ raise_exception('roles must\nalternate') }}", "refuses the roles user, user: roles must alternate"),
        ("{{ messages[7].content }}", "refuses"),
        ("{{ messages[0].content }}", "leaves out message 2 of 2"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "refuses"),
    ],
)
def test_a_template_that_cannot_be_used_is_one_line(source: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        layout(source, USER, USER)
    assert "\n" not in str(caught.value)
