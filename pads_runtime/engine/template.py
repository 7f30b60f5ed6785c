"""The model's own chat template, with the texts kept out of it.

A template is a Jinja program that writes control tokens around the messages. If it were given the texts, a user who
says ``<|im_end|>`` could close his own turn. It is given placeholders instead: what it writes is cut at them, the parts
it wrote are read with control tokens, and the texts go between as ordinary text. So the layout depends on the roles
alone, and is rendered once for each sequence of roles.
"""

from __future__ import annotations

import functools
import re
from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..errors import ModelError
from ..frames import Role

# Private-use characters, which no template contains; texts are never rendered, so they may contain anything.
_PLACEHOLDER = "\ue000{}\ue001"
_CUT = re.compile("\ue000(\\d+)\ue001")

Layout = tuple[str | int, ...]
"""What a template writes: str is template text, int the index of the message whose text stands there."""


class ChatTemplate:
    """A compiled template. Raises ModelError if it cannot be compiled or refuses a conversation.

    ``strftime_now`` is deliberately not offered: a prompt must not depend on the day.
    """

    def __init__(self, source: str, bos: str, eos: str) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals.update(raise_exception=_refuse, bos_token=bos, eos_token=eos)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as exc:
            raise ModelError(
                f"the model's chat template cannot be read: {_one_line(exc)}; choose a chat model"
            ) from None
        self.layout = functools.lru_cache(64)(self._layout)

    def _layout(self, roles: tuple[Role, ...], reply_header: bool) -> Layout:
        messages = [{"role": role.value, "content": _PLACEHOLDER.format(i)} for i, role in enumerate(roles)]
        try:
            text = self._template.render(messages=messages, add_generation_prompt=reply_header)
        except Exception as exc:  # a template is a program from a file: it may fail in any way
            who = ", ".join(role.value for role in roles)
            raise ModelError(f"the model's chat template refuses the roles {who}: {_one_line(exc)}") from None
        parts = _CUT.split(text)
        layout: Layout = tuple(int(part) if i % 2 else part for i, part in enumerate(parts) if i % 2 or part)
        lost = set(range(len(roles))) - {part for part in layout if isinstance(part, int)}
        if lost:
            raise ModelError(f"the model's chat template leaves out message {min(lost) + 1} of {len(roles)}")
        return layout


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split()) or type(exc).__name__
