"""What the times of an imported run count from, known before all files are read.

The earliest start is known at the end only, and links to what was shown before would shift then
(ingest.imports.preview). So the smallest file that has a start decides: it is read first, and it
is the same one whenever the same files are imported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ingest.imports.parts import Part
from ingest.readers.tables.staged_rows import StagedRows


def start_of(part: Part) -> int | None:
    """When the first rank of a file began, where its reader knows at once; Unix ns."""
    values = part.value if isinstance(part.value, tuple) else ()
    all_staged = [part.staged, *(staged for staged in values if isinstance(staged, StagedRows))]
    return next((staged.started_ns for staged in all_staged if staged.started_ns is not None), None)


class _Members:
    """Starts of the members of one file, in whatever order they come."""

    def __init__(self) -> None:
        self.start_ns: int | None = None
        """of the first member that has one, once all before it have come"""
        self._waiting: dict[int, int | None] = {}
        self._next = 0

    def note(self, member: int, start_ns: int | None) -> None:
        self._waiting[member] = start_ns
        while self._next in self._waiting:
            self._take(self._waiting.pop(self._next))
            self._next += 1

    def end(self) -> None:
        """What has not come never will."""
        for member in sorted(self._waiting):
            self._take(self._waiting.pop(member))

    def _take(self, start_ns: int | None) -> None:
        self.start_ns = start_ns if self.start_ns is None else self.start_ns


class Starts:
    """Starts of the files of one import as they come; a file that is an archive has several."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.turns = sorted(range(len(sizes)), key=lambda number: (sizes[number], -number))
        """numbers of the files, the smallest first"""
        self._files: dict[int, _Members] = defaultdict(_Members)
        self._ended: set[int] = set()

    def note(self, number: int, member: int, start_ns: int | None) -> None:
        """A member of a file was read; of a file that is no archive it is member 0."""
        self._files[number].note(member, start_ns)

    def end(self, number: int) -> None:
        """Nothing more comes of this file."""
        self._files[number].end()
        self._ended.add(number)

    @property
    def first_ns(self) -> int | None:
        """The start that counts; None as long as one before it may yet come."""
        for number in self.turns:
            start_ns = self._files[number].start_ns
            if start_ns is not None or number not in self._ended:
                return start_ns
        return None
