"""Version of the hooks, which run.json names."""

from __future__ import annotations

__version__ = "0.1.0"
