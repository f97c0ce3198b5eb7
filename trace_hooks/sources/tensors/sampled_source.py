"""What sources of statistics have in common: samples of a due step, copied to the host as rows."""

from __future__ import annotations

from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.tensor_samples import POLL_S, Copies, Copy, DueStep


class SampledSource(Source):
    """Samples tensors in some steps; `_publish` makes rows of them, on the drain thread."""

    poll_s = POLL_S

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._due: DueStep | None = None
        self._copies = Copies(context.recorder)

    def uninstall(self) -> None:
        """Write what is there."""
        self.step_end()
        self._copies.wait_for_last(self.poll)

    def step_end(self) -> None:
        """Begin to copy the samples to the host."""
        if self._due is not None:
            self._copies.send(self._due)

    def poll(self) -> None:
        """Make rows of what has arrived (drain thread)."""
        for copy in self._copies.arrived():
            self._publish(copy)

    def _publish(self, copy: Copy) -> None:
        raise NotImplementedError
