"""The loss: chunked equals whole, several exits equal a plain reference, and memory does not grow with the rows."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; ./scripts/setup --training")
transformers = pytest.importorskip("transformers", reason="transformers is not installed; ./scripts/setup --training")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from training.layerskip.loss import cross_entropy, scores  # noqa: E402
from training.layerskip.multi_exit import MultiExit  # noqa: E402
from training.layerskip.plan import Plan, dropped_layers  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
VOCAB, WIDTH = 97, 24


def tiny_model(layers: int = 6) -> Any:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=40,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_proj" in name or "down_proj" in name)
    return model.eval()


def plain_reference(model: Any, tokens: Any, first: int, plan: Plan, dropped: frozenset[int]) -> Any:
    """The loss written down as the recipe says it: whole logits, one layer after the other, nothing saved."""
    body = model.model
    places = torch.arange(tokens.shape[1])[None]
    turned = body.rotary_emb(body.embed_tokens(tokens), position_ids=places)
    states, seen = body.embed_tokens(tokens), {}
    for number, layer in enumerate(body.layers):
        if number not in dropped:
            states = layer(states, attention_mask=None, position_ids=places, position_embeddings=turned)
        seen[number + 1] = states
    total = torch.zeros(())
    for exit_layer, weight, stride in [(len(body.layers), 1.0, 1), *((e, 0.3, 4) for e in plan.exits)]:
        logits = model.lm_head(body.norm(seen[exit_layer])).float()
        picked = range(first, tokens.shape[1] - 1, stride)
        rows = [
            -torch.log_softmax(logits[row, at], dim=0)[tokens[row, at + 1]]
            for row in range(len(tokens))
            for at in picked
        ]
        total = total + weight * torch.stack(rows).mean()
    return total


@pytest.mark.parametrize("step", [None, 0, 1])
def test_the_loss_of_several_exits_equals_a_plain_reference_and_so_do_its_gradients(step: int | None) -> None:
    model, plan = tiny_model(), Plan(exits=(2, 3, 5), chunk=5)
    dropped = frozenset() if step is None else dropped_layers(plan, 6, step, 0) | {4}
    tokens = torch.randint(0, VOCAB, (2, 23), generator=torch.Generator().manual_seed(1))
    trained = [p for p in model.parameters() if p.requires_grad]
    wanted = plain_reference(model, tokens, 3, plan, dropped)
    gradients = torch.autograd.grad(wanted, trained, allow_unused=True)
    exits = MultiExit(model, plan)
    found = exits.total(exits(tokens, 3, dropped))
    assert abs(float(found.detach() - wanted.detach())) < 1e-5
    for ours, reference in zip(torch.autograd.grad(found, trained, allow_unused=True), gradients, strict=True):
        assert (ours is None) == (reference is None)
        if ours is not None:
            assert torch.allclose(ours, reference, rtol=0, atol=1e-5)
            assert float(reference.abs().max()) > 1e-4


def test_without_exits_and_dropout_it_is_the_librarys_own_loss() -> None:
    model = tiny_model()
    tokens = torch.randint(0, VOCAB, (2, 23), generator=torch.Generator().manual_seed(2))
    wanted = float(model(input_ids=tokens, labels=tokens).loss.detach())
    assert float(MultiExit(model, Plan(exits=(2,)))(tokens, 0)[0].detach()) == pytest.approx(wanted, abs=1e-5)


def test_what_is_measured_is_what_is_trained_on() -> None:
    exits = MultiExit(tiny_model(), Plan(exits=(2, 5), chunk=7))
    tokens = torch.randint(0, VOCAB, (2, 23), generator=torch.Generator().manual_seed(3))
    losses, measured = exits(tokens, 3).detach(), exits.measured(tokens, 3).means(exits.exits)
    assert measured["loss"] == pytest.approx(float(losses[0]), abs=1e-4)
    assert [row["loss"] for row in measured["exits"].values()] == pytest.approx(losses[1:].tolist(), abs=1e-4)
    assert all(0 <= row["agreement"] <= 1 for row in measured["exits"].values())


@pytest.mark.parametrize("chunk", [1, 7, 30, 64])
def test_chunked_equals_whole(chunk: int) -> None:
    generator = torch.Generator().manual_seed(4)
    states = torch.randn(30, WIDTH, generator=generator, requires_grad=True)
    head, targets = (
        torch.randn(VOCAB, WIDTH, generator=generator) / 5,
        torch.randint(0, VOCAB, (30,), generator=generator),
    )
    whole = torch.nn.functional.cross_entropy(states @ head.T, targets)
    (wanted,) = torch.autograd.grad(2 * whole, states)
    chunked = cross_entropy(states, head, targets, chunk)
    (found,) = torch.autograd.grad(2 * chunked, states)
    assert float(chunked.detach()) == pytest.approx(float(whole.detach()), abs=2e-6)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-6)
    total, choices = scores(states, head, targets, chunk)
    assert total / 30 == pytest.approx(float(whole.detach()), abs=1e-5)
    assert torch.equal(choices, (states @ head.T).argmax(dim=1))


class _Wide(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of live values that are as wide as the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.ndim == 2 and made.shape[1] == VOCAB and made.is_contiguous():
            storage = made.untyped_storage()
            if storage.data_ptr() not in self._known:
                self._known.add(storage.data_ptr())
                self._add(storage.data_ptr(), storage.nbytes())
                weakref.finalize(storage, self._forget, storage.data_ptr(), storage.nbytes())
        return made

    def _add(self, where: int, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)

    def _forget(self, where: int, size: int) -> None:
        self._known.discard(where)
        self.now -= size


def test_the_peak_memory_of_the_logits_is_the_same_for_any_length() -> None:
    peaks = []
    for rows in (64, 512, 4096):
        states = torch.randn(rows, WIDTH, requires_grad=True)
        head, targets = torch.randn(VOCAB, WIDTH), torch.randint(0, VOCAB, (rows,))
        with _Wide() as seen:
            cross_entropy(states, head, targets, 64).backward()
        peaks.append(seen.peak)
    assert peaks[0] == peaks[1] == peaks[2]
    assert 64 * VOCAB * 4 <= peaks[0] <= 4 * 64 * VOCAB * 4


def test_a_head_that_is_trained_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="frozen"):
        cross_entropy(torch.zeros(1, 2), torch.zeros(3, 2, requires_grad=True), torch.zeros(1, dtype=torch.long), 4)
