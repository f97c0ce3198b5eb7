"""Text from outside is made visible and short."""

from __future__ import annotations

import pytest

from trace_hooks.protocol.plain_text import LONGEST, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 値", "plain ü 値"),
        ("a\nb\r\x1b[2J\x00", r"a\nb\r\x1b[2J\x00"),
        ("\u202e\x9b\ud800", r"\u202e\x9b\ud800"),
        (None, "None"),
        (["\n"], r"['\n']"),
    ],
)
def test_text_from_outside_is_made_visible(text: object, shown: str) -> None:
    assert plain(text) == shown


def test_text_from_outside_is_cut() -> None:
    for text in ("x" * 10**6, "\n" * 10**6):
        assert len(plain(text)) == LONGEST
        assert plain(text).endswith("…")
