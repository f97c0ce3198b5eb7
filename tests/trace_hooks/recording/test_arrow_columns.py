"""What the recorder holds becomes Arrow tables."""

from __future__ import annotations

import pytest

from trace_hooks.recording.arrow_columns import row_table
from trace_hooks.recording.clock import Anchor


def test_a_row_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="colour"):
        row_table("marks", [{"colour": "red"}], Anchor())
