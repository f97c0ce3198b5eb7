"""docs/data-model.md agrees with the code."""

from __future__ import annotations

import runpy

from tests.folders import REPO

DOCS = REPO / "docs"


def test_the_generated_parts_are_up_to_date():
    script = runpy.run_path(str(DOCS / "data_model_tables.py"))
    page = (DOCS / "data-model.md").read_text(encoding="utf-8")
    assert script["rewritten"](page) == page, "run: python docs/data_model_tables.py"
