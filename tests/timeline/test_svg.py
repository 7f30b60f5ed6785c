import pytest

from pads_runtime.timeline.svg import esc, fit, num, stack, tag, width_of, wrap


def test_text_that_fits_is_left_alone_and_longer_text_is_cut_with_an_ellipsis() -> None:
    assert fit("hello", 100, 12) == "hello"
    assert fit("hello world", 45, 12).endswith("…")
    assert width_of(fit("hello world", 45, 12), 12) <= 45 + 12
    assert fit("hello", 3, 12) == ""


def test_wrapping_keeps_all_words_while_there_are_lines() -> None:
    text = "one two three four five six"
    assert " ".join(wrap(text, 60, 12, 9)) == text
    rows = wrap(text, 60, 12, 2)
    assert len(rows) == 2 and rows[-1].endswith("…")
    assert wrap("", 60, 12, 2) == []


def test_wide_characters_take_more_room() -> None:
    assert width_of("語", 12) > width_of("a", 12)


def test_labels_are_stacked_so_that_none_overlaps_in_its_row() -> None:
    assert stack([(0, 10), (5, 15), (6, 9), (30, 40)], 2, 1) == [0, 1, None, 0]


@pytest.mark.parametrize(("value", "shown"), [(1.0, "1"), (1.26, "1.3"), (-0.04, "0"), (-2.0, "-2")])
def test_coordinates_are_short(value: float, shown: str) -> None:
    assert num(value) == shown


def test_elements_close_in_full_unless_they_are_shapes() -> None:
    assert tag("b") == "<b></b>" and tag("rect", x=1.04) == '<rect x="1"/>'
    assert tag("td", class_="a", title='"<') == '<td class="a" title="&quot;&lt;"></td>'


def test_escaping_covers_both_quotes() -> None:
    assert esc("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
