"""How good the diagnosis is: labelled jobs in, precision, recall and places out."""

import sys


def draw_no_bars() -> None:
    """DuckDB takes a process whose main module has no file for a notebook, and draws bars.

    It looks when it is imported: so this stands where nothing is imported yet.
    """
    sys.modules["__main__"].__file__ = __file__
