"""What of written text is said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pads_runtime.speech.text import speakable


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Plain text, as it is.", "Plain text, as it is."),
        ("**Bold** and *thin* and `code` and ~~gone~~.", "Bold and thin and code and gone."),
        ("# A heading", "A heading"),
        ("- one\n* two\n• three\n> four", "one two three four"),
        ("1. First\n2) Second", "1, First 2, Second"),
        ("See [the page](https://a.example/x).", "See the page."),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("Nice 😀👍🏽 !", "Nice!"),
        ("👨‍👩‍👧 family 🇩🇪 flag 1️⃣", "family flag 1"),
        ("```python\nprint(1)\n```\nDone", "print(1) Done"),
        ("a\n---\nb", "a b"),
        ("Use snake_case and #hashtag, C# stays.", "Use snake case and hashtag, C# stays."),
        ("It is 20°C | 5 + 3 = 8 & 50%.", "It is 20°C 5 + 3 = 8 & 50%."),
        ("<b>Hi</b> a < b", "Hi a < b"),
        ("3.5, 1,000 and $9.99 at 3:30", "3.5, 1,000 and $9.99 at 3:30"),
        ("Don't; it's well-known.", "Don't; it's well-known."),
        ("zero\u200bwidth\x07bell", "zero width bell"),
        ("Привет, как дела?", "Привет, как дела?"),
        ("...", ""),
        ("😀", ""),
        ("***", ""),
        ("", ""),
    ],
)
def test_marks_go_and_words_stay(written: str, said: str) -> None:
    assert speakable(written) == said


@given(st.text(max_size=120) | st.text(alphabet="#*_-`[]()!<>ab1. \n|~=😀", max_size=60))
@settings(max_examples=500, deadline=None)
def test_it_is_idempotent_and_leaves_single_blanks(text: str) -> None:
    said = speakable(text)
    assert speakable(said) == said
    assert said == " ".join(said.split())


@given(st.text(alphabet="*#_-~`[]>|. \n😀!?,", max_size=60))
def test_text_of_marks_alone_says_nothing(text: str) -> None:
    assert speakable(text) == ""
