"""Browser profiles that many tests use in turn, each emptied before the next."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

WAIT_MS = 90_000
BLANK = "about:blank"


class Profile:
    """A profile with one page. Emptied it is like a new one, but has our scripts compiled: a page
    opens in it with two thirds of the CPU time.
    """

    def __init__(self, browser: Browser, has_touch: bool) -> None:
        self.has_touch = has_touch
        self.is_altered = False
        """a script was put into all its pages, which nothing takes out again"""
        self.context: BrowserContext = browser.new_context(
            has_touch=has_touch,
            permissions=["clipboard-read", "clipboard-write"],
            accept_downloads=True,
        )
        self.context.set_default_timeout(WAIT_MS)
        self.page: Page = self.context.new_page()
        self.page.goto(BLANK)

    def set_up(self, theme: str, size: tuple[int, int]) -> None:
        """The system's theme and the window's size in CSS pixels."""
        self.page.emulate_media(color_scheme="light" if theme == "light" else "dark")
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.mouse.move(0, 0)

    def add_script(self, script: str) -> None:
        """Run this in every page before its own scripts; the profile serves this test alone."""
        self.is_altered = True
        self.context.add_init_script(script)

    def empty(self, base: str) -> None:
        """Leave the page and forget cookies and whatever pages of a server have stored."""
        if self.page.url.startswith(base):
            self.page.evaluate("sessionStorage.clear()")
        self.page.unroute_all()
        self.page.goto(BLANK)
        self.context.set_offline(False)
        self.context.clear_cookies()
        parts = urlsplit(base)
        session = self.context.new_cdp_session(self.page)
        session.send(
            "Storage.clearDataForOrigin",
            {"origin": f"{parts.scheme}://{parts.netloc}", "storageTypes": "all"},
        )
        session.detach()


class Profiles:
    """Hands profiles of one browser out and takes them back."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: list[Profile] = []

    def take(self, has_touch: bool) -> Profile:
        """An empty profile that nobody else has."""
        for profile in self._idle:
            if profile.has_touch == has_touch:
                self._idle.remove(profile)
                return profile
        return Profile(self._browser, has_touch)

    def give_back(self, profile: Profile, base: str) -> None:
        """Empty a profile for the next test."""
        if profile.is_altered:
            profile.context.close()
            return
        profile.empty(base)
        self._idle.append(profile)
