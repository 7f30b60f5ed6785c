"""Word error rate of the recogniser's short window against Whisper's own 30 s window, on recorded utterances.

    python -m bench.recognizer --data <folder with words.tsv and stereo FLAC files> [--json]

An utterance is what one side says without a gap of 0.6 s between words, with 0.3 s around it, at most 8 s long. Both
windows read the same samples; besides the error rates, the share of words in which they differ is given.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pads_runtime.asr.agreement import plain
from pads_runtime.asr.whisper import MAX_WINDOW_S, WhisperRecognizer
from pads_runtime.audio.files import read_audio
from pads_runtime.errors import DataError, PadsError
from pads_runtime.frames import SAMPLE_RATE, Samples
from pads_runtime.logmel import FloatArray
from pads_runtime.models import Registry

GAP_S = 0.6
AROUND_S = 0.3
LONGEST_S = 8.0


class FullWindow(WhisperRecognizer):
    """The same decoding over the encoder's full 30 s."""

    def _states(self, samples: Samples) -> FloatArray:
        padded = np.zeros(MAX_WINDOW_S * SAMPLE_RATE, dtype=np.float32)
        padded[: len(samples)] = samples / np.float32(32768.0)
        return self._encode(padded)


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Least substitutions, insertions and deletions between two word lists."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        above, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
    return row[-1]


def utterances(folder: Path) -> Iterator[tuple[Samples, list[str]]]:
    """Samples and words of each utterance. Raises DataError without ``words.tsv``."""
    try:
        with (folder / "words.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    except OSError as exc:
        raise DataError(f"no word timings in '{folder}': {exc.strerror}") from None
    for dialogue in sorted({row["dialogue"] for row in rows}):
        for letter, channel in (("A", "left"), ("B", "right")):
            audio = read_audio(folder / f"{dialogue}.flac", channel)  # type: ignore[arg-type]
            words = [row for row in rows if (row["dialogue"], row["channel"]) == (dialogue, letter)]
            yield from _spoken(audio, sorted((float(w["start"]), float(w["end"]), w["word"]) for w in words))


def _spoken(audio: Samples, words: Sequence[tuple[float, float, str]]) -> Iterator[tuple[Samples, list[str]]]:
    groups: list[list[tuple[float, float, str]]] = []
    for word in words:
        if not groups or word[0] - groups[-1][-1][1] > GAP_S:
            groups.append([])
        groups[-1].append(word)
    for group in groups:
        start_s, end_s = max(0.0, group[0][0] - AROUND_S), group[-1][1] + AROUND_S
        if end_s - start_s <= LONGEST_S:
            samples = audio[int(start_s * SAMPLE_RATE) : int(end_s * SAMPLE_RATE)]
            yield samples, [plain(word) for _, _, text in group for word in text.split() if plain(word)]


def measure(folder: Path, model: Path) -> dict[str, float]:
    """Both windows over all utterances."""
    short, full = WhisperRecognizer(model), FullWindow(model)
    names = ("short", "full")
    wrong, spent = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    count = said_words = heard_words = differing = 0
    for samples, said in utterances(folder):
        texts: dict[str, list[str]] = {}
        for name, recognizer in zip(names, (short, full), strict=True):
            before = time.perf_counter()
            texts[name] = [plain(word) for word in recognizer.read(samples).words]
            spent[name] += time.perf_counter() - before
            wrong[name] += word_errors(said, texts[name])
        count += 1
        said_words += len(said)
        heard_words += len(texts["full"])
        differing += word_errors(texts["full"], texts["short"])
        print(f"\r{count} utterances", end="", file=sys.stderr)
    print(file=sys.stderr)
    if not said_words:
        raise DataError(f"no utterances in '{folder}'")
    return {
        "utterances": count,
        "words": said_words,
        "wer_short_window": wrong["short"] / said_words,
        "wer_full_window": wrong["full"] / said_words,
        "words_that_differ": differing / max(1, heard_words),
        "mean_ms_short_window": 1e3 * spent["short"] / count,
        "mean_ms_full_window": 1e3 * spent["full"] / count,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="recognizer", description="Word error rate of short and full windows.")
    parser.add_argument("--data", type=Path, required=True, help="folder with words.tsv and stereo FLAC files")
    parser.add_argument("--model", default="whisper-tiny.en", help="registry name or folder")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(arguments)
    try:
        result = measure(options.data, Registry.load().resolve(options.model))
    except PadsError as exc:
        print(f"FATAL: {exc}", file=sys.stderr)
        return exc.exit_code
    print(json.dumps(result) if options.json else "\n".join(f"{k:22} {v:.4g}" for k, v in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
