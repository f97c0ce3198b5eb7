"""Texts of sql/index/: what the indexer itself runs; the saved queries of users are in sql/."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def index_sql(name: str) -> str:
    """Text of sql/index/NAME.sql."""
    return resources.files("ingest").joinpath("sql", "index", f"{name}.sql").read_text("utf-8")
