"""The runs of a bucket: a hub over the mirror's folder, which fetches what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from app.runs.hub import Awaited, Hub
from app.runs.open_run import OpenRun
from ingest.errors import UserError
from ingest.run_folder.run_files import is_run_folder

if TYPE_CHECKING:
    from ingest.object_store.mirror import Mirror


class BucketHub(Hub):
    """As Hub; `mirror` outlives it."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.read_only = (
            f"This server only reads the runs in {mirror.name}: add runs with rankscope import "
            f"FILE --into {mirror.name}; a layout is corrected before a run is stored there."
        )
        super().__init__(mirror.folder)

    def names(self) -> list[str]:
        """Names of the runs; those of which nothing is here come last."""
        here = super().names()
        return here + [name for name in self.mirror.names() if name not in set(here)]

    def elsewhere(self) -> Mapping[str, int]:
        """Runs of which there is not all here, and when each was stored, Unix ns."""
        mirror = self.mirror
        missing = [name for name in mirror.names() if not mirror.is_followed(name)]
        return {name: mirror.stored_ns(name) for name in missing}

    def look(self, name: str, state: str) -> None:
        """A page shows the run in this state."""
        self.mirror.use(name)
        super().look(name, state)

    def problem(self, name: str) -> str | None:
        """What keeps the run from being brought up to date, None: nothing."""
        return super().problem(name) or self.mirror.problem(name) or None

    def problems(self) -> list[str]:
        """One sentence for each thing that cannot be followed."""
        return super().problems() + self.mirror.problems()

    def _open(self, name: str, wait_s: float | None = None) -> OpenRun:
        self.mirror.use(name)
        return super()._open(name, wait_s)

    def _folder_of(self, name: str) -> Path:
        if self.mirror.has(name) and not is_run_folder(self.store.folder / name):
            if problem := self.mirror.problem(name):
                raise UserError(f"{name} cannot be fetched: {problem}")
            raise Awaited(self.mirror.about(name))
        return super()._folder_of(name)
