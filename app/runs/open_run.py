"""A run that the server holds open: what follows its index, its versions, and what the cache notes
of the requests for its answers.
"""

from __future__ import annotations

from collections.abc import Callable

from app.runs.index_follower import Follower, Passes
from app.runs.prefetch import Prefetch
from app.runs.revalidation import Revalidations
from app.runs.viewers import Viewers
from ingest.index.retention import Keep
from ingest.run import Run


class OpenRun:
    """`on_news` is called from the follower's thread, as app.runs.index_follower has it."""

    def __init__(
        self, run: Run, on_news: Callable[[bool], None], passes: Passes, keep: Keep
    ) -> None:
        self.run = run
        self.index_version = 0
        """goes up with each piece of news in the index"""
        self.version = 0
        """goes up with the index's, and when a newer answer has been computed in the background"""
        self.news_s = 0.0
        """since when the answers were computed of which listeners were notified last, monotonic"""
        self.prefetch = Prefetch()
        self.revalidations = Revalidations()
        self.viewers = Viewers(run.folder)
        self.follower = Follower(run, on_news, passes, keep)
