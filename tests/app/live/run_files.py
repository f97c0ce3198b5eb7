"""Files of a run as its ranks send them."""

from __future__ import annotations

import json
from typing import Any

from trace_hooks.protocol.file_transfer import Parcel
from trace_hooks.schema import SCHEMA_VERSION


def run_file(run: str, **more: Any) -> Parcel:
    """run.json."""
    info = {
        "schema": SCHEMA_VERSION,
        "run": run,
        "created_ns": 1,
        "clock": "absolute",
        "source": "hooks",
        "framework": "test",
        "versions": {},
    }
    return Parcel("run.json", json.dumps({**info, **more}).encode())
