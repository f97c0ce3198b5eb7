"""What the times of an imported run count from, known before all files are read.

The earliest start is known at the end only, and links to what was shown before would shift then
(ingest.unfinished). So the smallest file that tells a start says it: it is read first, and it is
the same one whenever the same files are imported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ingest.parts import Part
from ingest.readers.shelf import Shelf


def start_of(part: Part) -> int | None:
    """When the first rank of a file began, where its reader says so at once; Unix ns."""
    found = part.value if isinstance(part.value, tuple) else ()
    shelves = [part.shelf, *(one for one in found if isinstance(one, Shelf))]
    return next((one.started_ns for one in shelves if one.started_ns is not None), None)


class Starts:
    """Starts of the files of one import as they come; a file that is an archive has several."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.turns = sorted(range(len(sizes)), key=lambda number: (sizes[number], -number))
        """numbers of the files, the smallest first"""
        self._told: dict[int, dict[int, int | None]] = defaultdict(dict)
        self._ended: set[int] = set()

    def tell(self, number: int, member: int, start_ns: int | None) -> None:
        """A member of a file was read; of a file that is no archive it is member 0."""
        self._told[number][member] = start_ns

    def end(self, number: int) -> None:
        """Nothing more comes of this file."""
        self._ended.add(number)

    @property
    def first_ns(self) -> int | None:
        """The start that counts; None as long as one before it may yet come."""
        for number in self.turns:
            told = self._told[number]
            for place, member in enumerate(sorted(told)):
                if member != place and number not in self._ended:
                    return None
                start_ns = told[member]
                if start_ns is not None:
                    return start_ns
            if number not in self._ended:
                return None
        return None
