"""Texts in CSV that no spreadsheet takes for a formula.

Names in a trace come from strangers, and spreadsheets run what begins with = + - @, also behind
blanks and control characters that they leave out (OWASP, "CSV Injection").
"""

from __future__ import annotations

import unicodedata

import pyarrow as pa

_STARTS_FORMULA = frozenset("=+-@＝＋－＠﹢﹣﹦﹫−")
_NOT_IN_FRONT = ("\t", "\r", "\n")
"""Some spreadsheets begin a new cell after these."""


def harmless(text: str) -> str:
    """The text, with a quote in front where a spreadsheet might take it for a formula."""
    if text[:1].isalnum():
        return text
    first = next((char for char in text if not _is_blank(char)), "")
    is_formula = first in _STARTS_FORMULA or text.startswith(_NOT_IN_FRONT)
    return f"'{text}" if is_formula else text


def _is_blank(char: str) -> bool:
    """Whether nothing is seen of it: separators, and control and format characters."""
    return unicodedata.category(char)[0] in "ZC"


def harmless_column(column: pa.Array) -> pa.Array:
    """A column of texts, each `harmless`; NULL stays NULL."""
    encoded = column.dictionary_encode()
    texts = pa.array([harmless(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)
