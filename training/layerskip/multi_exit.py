"""A causal language model of the transformers library whose layers can be skipped and whose exits can be scored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pads_runtime.errors import ModelError

from .loss import cross_entropy, scores
from .plan import Plan, chosen_exits


class MultiExit(torch.nn.Module):  # type: ignore[misc]
    """Scores a model at its last executed layer and at its auxiliary exits, all through its one norm and head.

    The model's parameters keep their names and places; only how its layers are called is changed. Raises ModelError for
    a model that is not built of ``layers``, ``norm`` and one output matrix.
    """

    def __init__(self, model: Any, plan: Plan) -> None:
        super().__init__()
        self.model = model
        self._body = body_of(model)
        self._plan = plan
        self.n_layer = len(self._body.layers)
        self.exits = chosen_exits(plan, self.n_layer)
        self._dropped: frozenset[int] = frozenset()
        self._states: dict[int, Any] = {}
        for index, layer in enumerate(self._body.layers):
            layer.forward = functools.partial(self._run, index, layer.forward)

    def _run(self, index: int, forward: Callable[..., Any], states: Any, *rest: Any, **named: Any) -> Any:
        """One layer, or nothing where it is dropped; what an exit after it would see is kept."""
        if index not in self._dropped:
            states = forward(states, *rest, **named)
        if index + 1 in self.exits:
            self._states[index + 1] = states
        return states

    def forward(self, tokens: Any, first: int, dropped: frozenset[int] = frozenset()) -> Any:
        """Losses (1 + exits,) of rows ``tokens`` (batch, length): the last executed layer, then each auxiliary exit.

        Positions before ``first`` are read, not scored: every row begins with the same ones.
        """
        final, states = self._hidden(tokens, dropped)
        head, stride = self._head(), self._plan.exit_stride
        targets = tokens[:, first + 1 :].long()
        losses = [cross_entropy(_flat(final[:, first:-1]), head, targets.reshape(-1), self._plan.chunk)]
        for exit_layer in self.exits:
            exited = self._body.norm(states[exit_layer][:, first:-1][:, ::stride])
            losses.append(cross_entropy(_flat(exited), head, targets[:, ::stride].reshape(-1), self._plan.chunk))
        return torch.stack(losses)

    def total(self, losses: Any) -> Any:
        """The sum that is trained on: the last layer with weight 1, each exit with its own."""
        return losses[0] + self._plan.exit_weight * losses[1:].sum()

    def measured(self, tokens: Any, first: int) -> Measured:
        """All layers, no gradients: the last at all positions from ``first`` on, the exits where they are trained."""
        with torch.no_grad():
            final, states = self._hidden(tokens, frozenset())
            head, targets, stride = self._head(), tokens[:, first + 1 :].long(), self._plan.exit_stride
            full, chosen = scores(_flat(final[:, first:-1]), head, targets.reshape(-1), self._plan.chunk)
            chosen = chosen.reshape(targets.shape)[:, ::stride].reshape(-1)
            sums, agree = [full], [len(chosen)]
            for exit_layer in self.exits:
                exited = _flat(self._body.norm(states[exit_layer][:, first:-1][:, ::stride]))
                loss, choice = scores(exited, head, targets[:, ::stride].reshape(-1), self._plan.chunk)
                sums.append(loss)
                agree.append(int((choice == chosen).sum()))
        return Measured(targets.numel(), tuple(sums), tuple(agree))

    def _hidden(self, tokens: Any, dropped: frozenset[int]) -> tuple[Any, dict[int, Any]]:
        self._dropped = dropped
        self._states = {}
        final = self._body(input_ids=tokens, use_cache=False).last_hidden_state
        states, self._states = self._states, {}
        return final, states

    def _head(self) -> Any:
        return self.model.get_output_embeddings().weight


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over positions, at the last layer and then at each exit."""

    positions: int
    """Those of the last layer; the exits have ``agree[0]`` of them."""
    losses: tuple[float, ...]
    agree: tuple[int, ...]
    """Positions at which the exit's likeliest token is the last layer's; first how many were compared."""

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.positions + other.positions,
            tuple(a + b for a, b in zip(self.losses, other.losses, strict=True)),
            tuple(a + b for a, b in zip(self.agree, other.agree, strict=True)),
        )

    def means(self, exits: Sequence[int]) -> dict[str, Any]:
        """Mean loss at full depth and, by exit, mean loss and share of agreement with full depth."""
        by_exit = {
            str(exit_layer): {
                "loss": round(self.losses[i] / self.agree[0], 5),
                "agreement": round(self.agree[i] / self.agree[0], 5),
            }
            for i, exit_layer in enumerate(exits, start=1)
        }
        return {"positions": self.positions, "loss": round(self.losses[0] / self.positions, 5), "exits": by_exit}


def body_of(model: Any) -> Any:
    """The part of a causal model that holds ``layers`` and ``norm``, low-rank companions or not."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    body = getattr(inner, "model", None)
    if not (hasattr(body, "layers") and hasattr(body, "norm") and inner.get_output_embeddings() is not None):
        raise ModelError(f"a model of the kind {type(inner).__name__} has no layers, norm and head as llama or qwen do")
    return body


def _flat(states: Any) -> Any:
    return states.reshape(-1, states.shape[-1])
