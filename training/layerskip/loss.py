"""The cross-entropy of many positions without ever holding all their logits.

The logits of a model with 50,000 tokens are its largest values by far: 1,024 positions at six exits would take 1.2 GB,
and their gradients as much again. The output matrix is frozen here, so the gradient towards the hidden states can be
made in the forward pass, chunk by chunk, and the logits of a chunk are forgotten before the next.
"""

from __future__ import annotations

from typing import Any

import torch


class ChunkedCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """Mean cross-entropy in float32; call :func:`cross_entropy`."""

    @staticmethod
    def forward(ctx: Any, states: Any, head: Any, targets: Any, chunk: int) -> Any:
        """``states`` (n, width), ``head`` (vocab, width) float32, ``targets`` (n,) -> scalar."""
        wanted = ctx.needs_input_grad[0]
        total = torch.zeros((), dtype=torch.float32, device=states.device)
        gradient = torch.empty_like(states) if wanted else None
        for start in range(0, len(states), chunk):
            part = slice(start, start + chunk)
            logits = states[part].float() @ head.T
            at = targets[part, None]
            norm = torch.logsumexp(logits, dim=1, keepdim=True)
            total += (norm - logits.gather(1, at)).sum()
            if gradient is not None:
                logits.sub_(norm).exp_()
                logits.scatter_add_(1, at, torch.full_like(norm, -1.0))
                gradient[part] = (logits @ head / len(states)).to(states.dtype)
            del logits  # before the next chunk's are made
        ctx.save_for_backward(*([gradient] if gradient is not None else []))
        return total / max(len(states), 1)

    @staticmethod
    def backward(ctx: Any, outer: Any) -> tuple[Any, None, None, None]:
        """The gradient made in the forward pass, scaled."""
        (gradient,) = ctx.saved_tensors
        return (gradient * outer).to(gradient.dtype), None, None, None


def cross_entropy(states: Any, head: Any, targets: Any, chunk: int) -> Any:
    """Mean cross-entropy of ``states`` (n, width) through ``head`` (vocab, width) against ``targets`` (n,), in float32.

    Logits exist for ``chunk`` positions at a time. Gradients flow to ``states`` only; ``head`` must be frozen.
    """
    if head.requires_grad:
        raise ValueError("the head must be frozen: gradients flow to the hidden states only")
    return ChunkedCrossEntropy.apply(states, head.detach().float(), targets, chunk)


def scores(states: Any, head: Any, targets: Any, chunk: int) -> tuple[float, Any]:
    """Sum of the cross-entropies, and the likeliest token of each position (n,); no gradients."""
    total, choices = 0.0, []
    with torch.no_grad():
        for start in range(0, len(states), chunk):
            part = slice(start, start + chunk)
            logits = states[part].float() @ head.float().T
            total += float(torch.nn.functional.cross_entropy(logits, targets[part], reduction="sum"))
            choices.append(logits.argmax(dim=1))
    return total, torch.cat(choices)
