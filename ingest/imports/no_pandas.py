"""pyarrow without pandas, in processes that only import files."""

from __future__ import annotations

import sys
from typing import Any


class _WithoutPandas:
    """Comes first, and knows that there is no pandas."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        """Raises ModuleNotFoundError for pandas, and leaves all others to Python."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used in this process", name=fullname)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, for the rest of this process.

    Where it can, it does so at the first value it is given, which takes longer than reading many a
    file. Not for a server: pyarrow remembers that there is none.
    """
    sys.meta_path.insert(0, _WithoutPandas())
