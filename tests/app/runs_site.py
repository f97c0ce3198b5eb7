"""A server in process, and answers of it that must be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np

from app.runs.hub import Hub
from app.server import make_app
from tests.app.in_process import Client
from tests.app.ranks_helpers import unpacked


class RunsSite:
    """A server of a folder of runs, without tokens."""

    def __init__(self, runs: Path) -> None:
        self.hub = Hub(runs)
        self.client = Client(make_app(self.hub))

    def close(self) -> None:
        """End the server."""
        self.client.close()
        self.hub.close()

    def answer(self, path: str, **params: Any) -> httpx.Response:
        """The answer to GET /api/run/`path`."""
        answer = self.client.get(f"/api/run/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer

    def unpacked(self, path: str, **params: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and meta of a binary answer."""
        return unpacked(self.answer(path, **params).content)
