"""The trace: what is written can be read back, whatever happened to the writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pads_runtime import trace
from pads_runtime.errors import InputError
from pads_runtime.frames import TraceEvent
from pads_runtime.trace import Trace

VALUES = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20) | st.just(0.25)
FIELDS = st.dictionaries(st.from_regex(r"[a-z_]{3,8}", fullmatch=True), VALUES | st.lists(VALUES, max_size=3))
TEXTS = ["plain", "zwei\nZeilen", "\u2028 and \u2029 and \x85 and \x0b and \x1c", '"quoted" \\', "हिन्दी 🎈", "\x00", ""]


def written(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    with Trace(path) as out:
        for i in range(3):
            out.emit("heard", i * 0.02, text=f"word {i} ü")
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.jsonl"
    with Trace(path) as out:
        out.emit("heard", 0.5, text=text)
        out.emit("after", 1.0)
    assert trace.read(path) == out.events == [TraceEvent(0.5, "heard", {"text": text}), TraceEvent(1.0, "after", {})]


def test_text_that_is_not_unicode_is_written_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with Trace(path) as out:
        out.emit("heard", 0.5, text="half \udce4 character")
    assert trace.read(path) == out.events


@given(st.floats(0, 1e5), FIELDS)
def test_a_line_read_back_is_the_event(t_s: float, fields: dict[str, object]) -> None:
    out = Trace()
    out.emit("kind", t_s, **fields)
    (event,) = out.events
    assert event.kind == "kind"
    assert trace.parse_line(trace.to_line(event)) == event


def test_times_and_figures_are_rounded_to_microseconds() -> None:
    out = Trace()
    out.emit("kind", 0.1 + 0.2, p=1 / 3, more=(0.1 + 0.2, [2 / 3]))
    assert out.events == [TraceEvent(0.3, "kind", {"p": 0.333333, "more": [0.3, [0.666667]]})]


def test_a_last_line_cut_anywhere_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    start_of_last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start_of_last + 1, len(whole) - 1):  # in the middle of a character, too
        path.write_bytes(whole[:cut])
        assert [event.t_s for event in trace.read(path)] == [0.0, 0.02]
    path.write_bytes(whole[:-1])
    assert len(trace.read(path)) == 3


@pytest.mark.parametrize(
    "bad", [b"not json", b"[1]", b"5", b"null", b'"t"', b'{"t": 1}', b'{"event": "x"}', b"\xff", b"{}", b""]
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, bad: bytes) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().split(b"\n")
    lines[1] = bad
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"trace\.jsonl' line 2 is not a trace event"):
        trace.read(path)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        trace.read(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        trace.read(tmp_path)


def test_an_empty_trace_has_no_events(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert trace.read(tmp_path / "empty.jsonl") == []


def test_lines_are_in_the_file_before_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    out = Trace(path)
    out.emit("heard", 1.0)
    assert [event.kind for event in trace.read(path)] == ["heard"]
    out.close()
    out.close()


def test_memory_keeps_the_newest_events_and_listeners_hear_all() -> None:
    out, heard = Trace(keep=2), []
    out.emit("before", 0.0)
    out.listen(heard.append)
    for i in range(4):
        out.emit("kind", float(i))
    assert [event.t_s for event in out.events] == [2.0, 3.0]
    assert [event.t_s for event in heard] == [0.0, 1.0, 2.0, 3.0]
