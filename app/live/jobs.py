"""A server's state of running jobs, apart from their files: connected ranks and newest frames."""

from __future__ import annotations

from app.live.connected_ranks import ConnectedRanks
from app.live.frame_cache import FrameCache


class LiveJobs:
    """One per server, for its event loop."""

    def __init__(self) -> None:
        self.frames = FrameCache()
        self.ranks = ConnectedRanks(on_forget=self.frames.forget)
