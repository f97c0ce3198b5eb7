"""Every page on every kind of run, in both themes, on a desktop and on a phone."""

from __future__ import annotations

import pytest

from app.links import PAGES, View
from tests.browser.tabs import Tab

START = View().url()


@pytest.mark.parametrize("page", PAGES)
def test_a_recorded_run(tab: Tab, page: str) -> None:
    tab.open(View("slow_rank", page).url())
    assert tab.page.locator('.topbar a[aria-current="page"]').inner_text().lower() == page
    tab.page.wait_for_timeout(300)
    assert tab.page.locator(".failed").count() == 0
