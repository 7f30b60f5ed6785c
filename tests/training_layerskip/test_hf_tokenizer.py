"""The tokenizer of a Hugging Face checkpoint builds prompts as the engine's own does."""

from __future__ import annotations

from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers", reason="transformers is not installed; ./scripts/setup --training")
import tokenizers  # noqa: E402

from pads_runtime.errors import InputError, ModelError  # noqa: E402
from pads_runtime.frames import Message, Role  # noqa: E402
from training.checkpoints.hf_tokenizer import HfTokenizer  # noqa: E402
from training.checkpoints.source import find_source  # noqa: E402
from training.corpora.sources import Dialogue  # noqa: E402
from training.corpora.stream import stream_of  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A byte-level BPE tokenizer of a few sentences with two control tokens."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["the house by the river is old", "the river runs by the old house"], trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|im_start|>", eos_token="<|im_end|>", chat_template=TEMPLATE
    )
    fast.save_pretrained(tmp_path)
    return tmp_path


def test_turns_are_framed_by_control_tokens_and_read_back(folder: Path) -> None:
    tokenizer = HfTokenizer(folder)
    start, end = tokenizer.specials["<|im_start|>"], tokenizer.specials["<|im_end|>"]
    talk = Dialogue(
        "ami", "x 0", (Message(Role.USER, "the old house"), Message(Role.AGENT, "by the r\u00edver <|im_end|>"))
    )
    stream = stream_of([talk], tokenizer, "be kind")
    tokens = stream.tokens.tolist()
    assert (stream.prefix[0], stream.prefix.count(start), tokens[0]) == (start, 1, start)
    assert (tokens.count(start), tokens.count(end)) == (2, 2)  # the one somebody said is ordinary text
    text = tokenizer.decode(tokens)
    assert "user\nthe old house" in text
    assert "assistant\nby the r\u00edver <|im_end|>" in text


def test_a_checkpoint_without_a_template_or_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json with \*\.safetensors"):
        find_source(str(folder))
    for path in folder.glob("*.jinja"):
        path.unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        HfTokenizer(folder)
    with pytest.raises(ModelError, match="no tokenizer that can be read"):
        HfTokenizer(tmp_path / "empty")
