"""Browser tabs that remember everything that went wrong in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import TracebackType

from playwright.sync_api import Browser, BrowserContext, Page, Request, Response

DESKTOP, PHONE = (1400, 900), (390, 844)
ABORTED = "net::ERR_ABORTED"
"""A request that was given up because a newer one made it useless, or the page was left."""


@dataclass
class Problems:
    """Errors of one tab, one line each; what a test expects is left out by a pattern."""

    lines: list[str] = field(default_factory=list)
    allowed: list[re.Pattern[str]] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Note an error."""
        self.lines.append(line)

    def allow(self, pattern: str) -> None:
        """Errors that match are expected in this test."""
        self.allowed.append(re.compile(pattern))

    @property
    def unexpected(self) -> list[str]:
        """What no pattern allows."""
        return [line for line in self.lines if not any(a.search(line) for a in self.allowed)]


class Tab:
    """A page in a fresh profile (nothing stored, no cookies), with its problems."""

    def __init__(
        self, browser: Browser, base: str, theme: str = "dark", size: tuple[int, int] = DESKTOP
    ) -> None:
        self.base = base
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme,
            has_touch=size == PHONE,
        )  # fmt: skip
        self.context.set_default_timeout(15_000)
        self.problems = Problems()
        self.page: Page = self.context.new_page()
        self.page.on(
            "console",
            lambda m: self.problems.add(f"console: {m.text} {m.location.get('url', '')}")
            if m.type == "error" else None,
        )  # fmt: skip
        self.page.on("pageerror", lambda error: self.problems.add(f"page error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def _failed(self, request: Request) -> None:
        if request.failure != ABORTED:
            self.problems.add(f"failed: {request.url} {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.add(f"status {response.status}: {response.url}")

    def open(self, path: str = "/") -> Page:
        """Go to a path below the server's base and wait until Dash has drawn the page."""
        self.page.goto(f"{self.base}{path}")
        self.page.wait_for_selector("#page:not(.loading)")
        return self.page

    def close(self) -> None:
        """Close the profile."""
        self.context.close()

    def __enter__(self) -> Tab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
