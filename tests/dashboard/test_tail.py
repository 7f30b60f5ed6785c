"""Following a trace that is being written."""

from __future__ import annotations

from pathlib import Path

from pads_runtime.dashboard import tail
from pads_runtime.dashboard.tail import Tail
from pads_runtime.frames import TraceEvent
from pads_runtime.trace import to_line


def line(number: int, **fields: object) -> bytes:
    return to_line(TraceEvent(float(number), "x", {"n": number, **fields})).encode() + b"\n"


def numbers(follow: Tail) -> list[int]:
    return [event.fields["n"] for event in follow.read()]


def test_only_whole_lines_are_read_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line(1) + line(2)[:7])
    follow = Tail(path)
    assert numbers(follow) == [1]
    assert numbers(follow) == []
    path.write_bytes(line(1) + line(2) + line(3))
    assert numbers(follow) == [2, 3]


def test_what_is_written_byte_by_byte_is_what_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    data = b"".join(line(i, text="ä\u2028 {") for i in range(5))
    found: list[int] = []
    path.write_bytes(b"")
    follow = Tail(path)
    for i in range(0, len(data), 3):
        with path.open("ab") as file:
            file.write(data[i : i + 3])
        found += numbers(follow)
    assert found == [0, 1, 2, 3, 4]


def test_of_a_huge_trace_only_the_end_is_read_from_a_whole_line_on(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    count = 3 * tail.PIECE_BYTES // len(line(10_000))
    path.write_bytes(b"".join(line(i) for i in range(count)))
    found = numbers(Tail(path))
    assert found[-1] == count - 1
    assert found == list(range(found[0], count))
    assert found[0] > 0


def test_what_comes_fast_is_read_in_bounded_pieces_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"")
    follow = Tail(path)
    assert numbers(follow) == []
    count = 3 * tail.PIECE_BYTES // len(line(10_000))
    path.write_bytes(b"".join(line(i) for i in range(count)))
    first = numbers(follow)
    assert 0 < len(first) < count
    found = list(first)
    while more := numbers(follow):
        found += more
    assert found == list(range(count))


def test_a_line_that_never_ends_is_passed_over_without_being_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line(1) + b'{"t": 2, "event": "' + b"y" * tail.LINE_BYTES * 2)
    follow = Tail(path)
    assert numbers(follow) == [1]
    assert len(follow._rest) == 0
    with path.open("ab") as file:
        file.write(b'"}\n' + line(3))
    assert numbers(follow) == [3]


def test_lines_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    odd = [b"[]", b"3", b"{}", b'{"t": "a", "event": "x"}', b'{"t": NaN, "event": "x"}', b'{"t": 1, "event": 2}']
    odd += [b'{"t": true, "event": "x"}', b"\xff\xfe", b"[" * 50_000, b""]
    path.write_bytes(b"\n".join(odd) + b"\n" + line(7))
    assert numbers(Tail(path)) == [7]


def test_a_trace_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line(1) + line(2))
    follow = Tail(path)
    assert numbers(follow) == [1, 2]
    path.write_bytes(line(9))
    assert numbers(follow) == [9]


def test_a_trace_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    assert numbers(Tail(path)) == []
    path.write_bytes(line(1))
    follow = Tail(path)
    assert numbers(follow) == [1]
    path.unlink()
    assert numbers(follow) == []
