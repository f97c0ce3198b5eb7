"""The page with the form for the token, and the redirect: nothing in them runs."""

from __future__ import annotations

from app.access.login_page import form_page, redirect_page

EVIL = '"><script>alert(1)</script>'


def test_the_form_keeps_the_parameters_and_escapes_them() -> None:
    page = form_page("Token?", f"/run/{EVIL}", [("rank", "5"), (EVIL, EVIL)])
    assert '<input type="hidden" name="rank" value="5">' in page
    assert "<script>" not in page
    assert 'action="/run/&quot;&gt;' in page


def test_the_redirect_escapes_its_address() -> None:
    page = redirect_page(f"/?a={EVIL}")
    assert 'http-equiv="refresh"' in page
    assert "<script>" not in page
