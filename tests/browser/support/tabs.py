"""Browser tabs that remember everything that went wrong in them."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import ConsoleMessage, Dialog, Error, Locator, Page, Request, Response

from tests.browser.support.profiles import BLANK, Profile

DESKTOP, PHONE = (1400, 900), (390, 844)
LONGEST_S, QUIET_S = 90.0, 0.25
ABORTED = "net::ERR_ABORTED"
"""A request that was given up because a newer one made it useless, or the page was left."""
LEFT = "Execution context was destroyed"

_STICKING_OUT = """() => {
    const { scrollWidth, clientWidth } = document.scrollingElement;
    if (scrollWidth <= clientWidth) return [];
    return [...document.querySelectorAll('body *')]
        .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > clientWidth + 1)
        .map((e) => e.outerHTML.slice(0, 120)).slice(0, 4);
}"""
_PIXELS = """
    const bytes = Uint8Array.from(atob(picture), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d', {willReadFrequently: true});
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, image.width, image.height).data;
"""
_NUM_COLOURS = f"""async (picture) => {{ {_PIXELS}
    return new Set(new Uint32Array(pixels.buffer)).size;
}}"""
_NUM_PIXELS = f"""async ([picture, variable]) => {{ {_PIXELS}
    const style = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
    const wanted = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
    let number = 0;
    for (let i = 0; i < pixels.length; i += 4) {{
        number += wanted.every((value, c) => Math.abs(pixels[i + c] - value) < 16);
    }}
    return number;
}}"""


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
    """A page in an empty profile (nothing stored, no cookies), with its problems."""

    def __init__(
        self, profile: Profile, base: str, theme: str = "dark", size: tuple[int, int] = DESKTOP
    ) -> None:
        self.base = base
        self.profile = profile
        self.context, self.page = profile.context, profile.page
        self.problems = Problems()
        self._under_way: set[Request] = set()
        self._last_end_s = 0.0
        self._listeners: dict[str, Callable[[Any], None]] = {
            "console": self._logged,
            "pageerror": lambda e: self.problems.add(f"page error: {e}"),
            "dialog": self._dialog,
            "request": self._requested,
            "requestfinished": self._ended,
            "requestfailed": self._failed,
            "response": self._answered,
        }
        profile.set_up(theme, size)
        for event, listener in self._listeners.items():
            self.page.on(event, listener)

    def listen(self, event: str, listener: Callable[[Any], None]) -> None:
        """Hear of one more kind of events of the page, until it is left."""
        assert event not in self._listeners
        self._listeners[event] = listener
        self.page.on(event, listener)

    def leave(self) -> None:
        """Listen no more; the profile may be used by the next test."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)

    def go_away(self) -> None:
        """Leave the page once all is answered: a server of this process may then end at once."""
        self.settle()
        self.page.goto(BLANK)

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.add(f"console: {message.text} {message.location.get('url', '')}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.add(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        self._under_way.add(request)

    def _ended(self, request: Request) -> None:
        self._under_way.discard(request)
        self._last_end_s = time.monotonic()

    def _failed(self, request: Request) -> None:
        self._ended(request)
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

    def turn_to(self, page: str) -> None:
        """Go to another page of the run without a reload."""
        self.page.evaluate("(page) => window.rankscope.open({page})", page)
        self.page.wait_for_url(re.compile(rf"/{page}(\?|$)"))

    def assert_sound(self) -> None:
        """Nothing failed to draw, nothing is still loading, nothing sticks out."""
        assert self.page.locator(".failed").all_inner_texts() == []
        assert self.page.locator("#page.loading").count() == 0
        assert self.sticking_out() == [], self.sticking_out()

    def settle(self) -> None:
        """Wait until all requests are answered, no new one follows, and what came is drawn."""
        deadline = time.monotonic() + LONGEST_S
        self._last_end_s = time.monotonic()
        while self._under_way or time.monotonic() - self._last_end_s < QUIET_S:
            assert time.monotonic() < deadline, sorted(r.url for r in self._under_way)
            self.page.wait_for_timeout(50)

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true.

        Evaluated from outside: playwright's own waiting evaluates text inside the page, which its
        Content-Security-Policy forbids.
        """
        deadline = time.monotonic() + LONGEST_S
        while not self._is_true(expression):
            assert time.monotonic() < deadline, expression
            self.page.wait_for_timeout(50)

    def _is_true(self, expression: str) -> bool:
        """Not so while the page is being left: it may reload itself at any time."""
        try:
            return bool(self.page.evaluate(expression))
        except Error as error:
            if LEFT not in error.message:
                raise
            return False

    def view(self) -> dict[str, Any]:
        """The view state as the browser has it."""
        state: dict[str, Any] = self.page.evaluate("window.rankscope.view")
        return state

    def sticking_out(self) -> list[str]:
        """What makes the page wider than the window, a few elements of it."""
        found: list[str] = self.page.evaluate(_STICKING_OUT)
        return found

    def num_colours(self, place: Locator) -> int:
        """Different colours in the picture of an element; 1 for an empty one."""
        picture = base64.b64encode(place.screenshot()).decode()
        number: int = self.page.evaluate(_NUM_COLOURS, picture)
        return number

    def num_pixels(self, place: Locator, variable: str) -> int:
        """Pixels in the picture of an element that have the colour of a CSS variable, nearly."""
        picture = base64.b64encode(place.screenshot()).decode()
        number: int = self.page.evaluate(_NUM_PIXELS, [picture, variable])
        return number
