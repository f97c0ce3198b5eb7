"""What sources that stand between Python and c10d have in common."""

from __future__ import annotations

from typing import Any

from trace_hooks.sources.base import Source
from trace_hooks.sources.communication.collective_log import CollectiveLog, Outstanding, log_of
from trace_hooks.sources.patching import Patches


class C10dSource(Source):
    """Replaces names of torch.distributed while installed; keeps the instances in progress."""

    def install(self) -> None:
        """Replace what this torch has; nothing where torch is built without distributed."""
        from torch import distributed

        self.active = False
        self._patches = Patches()
        if not distributed.is_available():
            return
        self.log: CollectiveLog = log_of(self.recorder)
        self.outstanding = Outstanding(self.log)
        self._replace(distributed)
        self.active = True

    def uninstall(self) -> None:
        """Restore it; instances still in progress become rows without an end."""
        self.active = False
        self._patches.restore()
        if hasattr(self, "outstanding"):
            self.outstanding.end_all()

    def _replace(self, distributed: Any) -> None:
        raise NotImplementedError
