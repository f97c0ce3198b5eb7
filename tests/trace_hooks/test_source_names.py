"""Every source name leads to a class of that name."""

from __future__ import annotations

import pytest

from trace_hooks.source_names import SOURCES
from trace_hooks.sources import load_source


@pytest.mark.parametrize("name", SOURCES)
def test_a_name_leads_to_its_class(name: str) -> None:
    assert load_source(name).name == name


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown source 'nothing'; known: startup, modules, "):
        load_source("nothing")
