"""The training loop: steps, validation, checkpoints.

What a step does depends on its number alone, so a run that was stopped goes on from its last checkpoint and ends with
the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pads_runtime.errors import ModelCorrupt, ModelError, SetupError

from ..corpora.stream import Stream
from .data import validation_rows
from .multi_exit import Measured, MultiExit
from .plan import Plan, dropped_layers, learning_rate, rows_of_step

Say = Callable[[str], None]
Log = Callable[[dict[str, Any]], None]
CHECKPOINT = "checkpoint.pt"
_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory", "bad_alloc")


@dataclass(frozen=True)
class Schedule:
    """When a run validates and saves; nothing of it changes what is learned."""

    validate_rows: int
    """Rows of each validation stream."""
    save_every: int
    """Steps between two checkpoints."""


class Trainer:
    """One run on one or several devices. Of an ``accelerate.Accelerator``'s processes only the main one writes."""

    def __init__(
        self, exits: MultiExit, plan: Plan, accelerator: Any, work: Path, fingerprint: Mapping[str, Any]
    ) -> None:
        """``fingerprint`` says what the run is (plan, model, data): a checkpoint of another one is refused."""
        self._exits, self._plan, self._accelerator, self._work = exits, plan, accelerator, work
        self._fingerprint = dict(fingerprint)
        self._trained = {name: p for name, p in exits.named_parameters() if p.requires_grad}
        optimizer = torch.optim.AdamW(self._trained.values(), lr=plan.learning_rate, weight_decay=0.0)
        self._wrapped, self._optimizer = accelerator.prepare(exits, optimizer)
        self.step = 0

    @property
    def size(self) -> int:
        """Numbers that are trained."""
        return sum(parameter.numel() for parameter in self._trained.values())

    def resume(self) -> bool:
        """Take up the work folder's checkpoint, if it has one. Raises ModelCorrupt or ModelError if it does not fit."""
        path = self._work / CHECKPOINT
        if not path.is_file():
            return False
        try:
            kept = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as exc:  # torch raises whatever its unpickler does
            reason = " ".join(str(exc).split())[:120]
            raise ModelCorrupt(f"checkpoint '{path}' cannot be read ({reason}); remove it to begin again") from None
        if kept.get("fingerprint") != self._fingerprint:
            raise ModelError(f"'{path}' is of another run: {self._difference(kept.get('fingerprint') or {})}")
        self._take(kept["weights"], path)
        self._optimizer.load_state_dict(kept["optimizer"])
        self.step = int(kept["step"])
        return True

    def _take(self, weights: Mapping[str, Any], path: Path) -> None:
        for name, parameter in self._trained.items():
            if name not in weights or weights[name].shape != parameter.shape:
                found = tuple(weights[name].shape) if name in weights else "missing"
                raise ModelError(
                    f"checkpoint '{path}' is of another shape: {name} is {found}, this model needs "
                    f"{tuple(parameter.shape)}; choose another --work or remove it"
                )
        with torch.no_grad():
            for name, parameter in self._trained.items():
                parameter.copy_(weights[name])

    def _difference(self, other: Mapping[str, Any]) -> str:
        for key, value in self._fingerprint.items():
            if other.get(key) != value:
                return f"its {key} is {other.get(key)}, here it is {value}; choose another --work or remove it"
        return "it says nothing of itself; remove it"

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        if not self._accelerator.is_main_process:
            return
        path = self._work / CHECKPOINT
        beside = path.with_name(path.name + ".part")
        state = {
            "fingerprint": self._fingerprint,
            "step": self.step,
            "weights": {name: parameter.detach().cpu() for name, parameter in self._trained.items()},
            "optimizer": self._optimizer.state_dict(),
        }
        try:
            torch.save(state, beside)
            beside.replace(path)
        except (OSError, RuntimeError) as exc:
            reason = _one_line(exc)
            raise SetupError(f"checkpoint '{path}' cannot be written: {reason}; make room and run again") from None

    def run(self, stream: Stream, schedule: Schedule, log: Log) -> None:
        """Train up to the last step. Raises SetupError when memory runs out, naming the setting to lower."""
        while self.step < self._plan.steps:
            started = time.perf_counter()
            figures = self._guarded(self._step, stream)
            log({**figures, "seconds": round(time.perf_counter() - started, 2)})
            if self.step % schedule.save_every == 0 or self.step == self._plan.steps:
                self.save()

    def _step(self, stream: Stream) -> dict[str, Any]:
        plan, devices, me = self._plan, self._accelerator.num_processes, self._accelerator.process_index
        rate = learning_rate(plan, self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        rows = rows_of_step(plan, stream.rows(plan.sequence), self.step, devices)
        losses, dropped = [], []
        for part in range(plan.accumulate):
            skip = dropped_layers(plan, self._exits.n_layer, self.step, part)
            first = (part * devices + me) * plan.batch
            tokens = self._tokens(stream, rows[first : first + plan.batch])
            syncing = part == plan.accumulate - 1
            with nullcontext() if syncing else self._accelerator.no_sync(self._wrapped):
                each = self._wrapped(tokens, len(stream.prefix), skip)
                self._accelerator.backward(self._exits.total(each) / plan.accumulate)
            losses.append(each.detach().float().cpu().numpy())
            dropped.append(len(skip))
        norm = self._accelerator.clip_grad_norm_(self._trained.values(), plan.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1
        mean = np.mean(losses, axis=0)
        if not np.isfinite(mean).all():
            raise ModelError(f"step {self.step}: the loss is {mean[0]}; lower --learning-rate")
        return {
            "step": self.step,
            "loss": round(float(mean[0]), 5),
            "exit_losses": {str(e): round(float(v), 5) for e, v in zip(self._exits.exits, mean[1:], strict=True)},
            "dropped": dropped,
            "learning_rate": rate,
            "gradient_norm": round(float(norm), 5),
            "tokens": plan.sequence * len(rows),
        }

    def validate(self, streams: Mapping[str, Stream], schedule: Schedule) -> dict[str, Any]:
        """Loss at full depth without dropout, loss and agreement at each exit, by source."""
        self._exits.eval()
        found = {}
        for source, stream in streams.items():
            total: Measured | None = None
            rows = validation_rows(stream, self._plan.sequence, schedule.validate_rows)
            for at in range(0, len(rows), self._plan.batch):
                part = self._guarded(self._measured, stream, rows[at : at + self._plan.batch])
                total = part if total is None else total + part
            if total is not None:
                found[source] = total.means(self._exits.exits)
        self._exits.train()
        return found

    def _measured(self, stream: Stream, rows: list[int]) -> Measured:
        return self._exits.measured(self._tokens(stream, rows), len(stream.prefix))

    def _tokens(self, stream: Stream, rows: list[int]) -> Any:
        table = np.stack([stream.row(row, self._plan.sequence) for row in rows]).astype(np.int64)
        return torch.from_numpy(table).to(self._accelerator.device)

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (MemoryError, RuntimeError) as exc:
            if isinstance(exc, MemoryError) or any(mark in str(exc).lower() for mark in _OUT_OF_MEMORY):
                raise SetupError(self._lower()) from None
            raise

    def _lower(self) -> str:
        plan = self._plan
        settings = f"--batch {plan.batch}, --sequence {plan.sequence}, --chunk {plan.chunk}"
        where = f"out of memory in step {self.step + 1} ({settings})"
        if plan.batch > 1:
            return f"{where}; lower --batch and raise --accumulate by as much, then run the same command again"
        return f"{where}; lower --sequence, then --chunk, or choose a smaller model"


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:160]
