"""A reading process of an import that ends itself where it does what reading never needs.

`python -m tests.hostile.fuzz.guarded_worker FOLDER` does what `python -m ingest.imports.worker`
does, with one reader more, of files in which a crash, a hang or an escape is planted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingest import readers as registry
from ingest.imports import worker
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.staged_rows import StagedRows
from tests.hostile.fuzz.worker import PLANTS, do_what_is_planted, guard, import_all


class _Planted:
    """The reader of what is planted."""

    FORMAT = Format("planted", "planted")

    def recognises(self, source: Source) -> bool:
        return source.head in PLANTS.values()

    def read(self, source: Source, _staged: StagedRows) -> None:
        do_what_is_planted(source.head)

    def Import(self, _sink: Sink) -> _Planted:
        return self

    def add_file(self, _found: None) -> None:
        pass

    def finish(self) -> None:
        pass


def main(folder: Path) -> None:
    """Read files on orders from stdin; nothing may be written outside of `folder`."""
    sys.dont_write_bytecode = True
    import_all()
    known = [_Planted(), *registry.readers()]
    registry.readers = lambda: known  # type: ignore[assignment]
    guard(folder)
    worker.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
