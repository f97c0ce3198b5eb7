"""Names of tokens: short, and within the labels of a frame."""

from __future__ import annotations

import json

import pytest

from trace_hooks.sources.inspection import token_names
from trace_hooks.sources.inspection.token_names import TokenNames

pytestmark = pytest.mark.torch


def test_texts_are_short_and_labels_fit_into_a_frame(monkeypatch: pytest.MonkeyPatch):
    texts = TokenNames()
    texts.use(lambda ids: "x" * 1000)
    assert json.loads(texts.labels([4, -1]) or "") == [[4, "x" * token_names.MAX_TEXT], None]
    monkeypatch.setattr(token_names, "MAX_LABELS", 50)
    assert texts.labels([4, 4]) is None
    texts.use(None)
    assert texts.labels([4, 4]) == "[4,4]"
