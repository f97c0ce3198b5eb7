"""Where Chromium is, and how the tests start it."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")

FLAGS = (
    "--no-sandbox",  # root in a container has none
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader",  # WebGL without a GPU
    "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip

MISSING = f"no Chromium on PATH ({', '.join(NAMES)}); install it: apt-get install chromium"


def chromium() -> str | None:
    """Path of the first Chromium found, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
