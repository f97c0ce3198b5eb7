"""The registry: every reader by name, generic ones last, facts also of runs without a reader."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from ingest.readers import FORMATS, format_facts, reader_named, readers


def test_every_reader_is_named_like_its_module() -> None:
    for reader in readers():
        name = reader.FORMAT.name
        assert reader is import_module(f"ingest.readers.{name}")
        assert reader_named(name) is reader
        assert reader.FORMAT.layout_from in ("job", "coordinates", "process groups")
        assert reader.FORMAT.title


def test_generic_formats_are_tried_last() -> None:
    generic = [format_facts(name).is_generic for name in FORMATS]
    assert generic == sorted(generic)


def test_a_run_that_no_reader_made_has_facts_too() -> None:
    facts = format_facts("hooks")
    assert (facts.title, facts.layout_from, facts.has_own_clocks) == ("hooks", "job", False)


def test_the_source_of_a_stranger_s_run_is_never_imported() -> None:
    assert format_facts("unsupported").title == "unsupported"
    with pytest.raises(StopIteration):
        reader_named("parsing.archives")
    assert "ingest.readers.antigravity" not in sys.modules
