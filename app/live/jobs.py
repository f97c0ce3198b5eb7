"""What a server holds of running jobs besides their files: connected ranks and the last frames."""

from __future__ import annotations

from app.live.connected_ranks import LiveRanks
from app.live.frame_cache import LiveFrames


class LiveJobs:
    """One per server, for its event loop."""

    def __init__(self) -> None:
        self.frames = LiveFrames()
        self.ranks = LiveRanks(on_forget=self.frames.forget)
