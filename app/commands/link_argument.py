"""A link of the dashboard, or the part of it after the run's name, as the argument of a verb."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from app.view_state import PAGE_NAMES, SHOWN_INSTEAD, View, parse_url
from ingest.errors import UserError

_RUN_IN_LINK = re.compile(r"^.*?/run/[^/]+(?:/|$)")
_RUN = re.compile(r"(?:^|/)run/([^/]+)")


def view_of(text: str, run: str) -> tuple[View, list[str]]:
    """View of a link, of its end, or of nothing, in the run of that name; and what was invalid."""
    parts = urlsplit(text)
    inside = _RUN_IN_LINK.sub("", parts.path, count=1).strip("/")
    view, problems = parse_url(f"/run/x/{inside}", parts.query)
    return view.to(run=run), problems


def check_run(link: str, run: str) -> None:
    """Raise UserError where a link is one of another run: its steps are not those of this one."""
    found = _RUN.search(urlsplit(link).path)
    name = unquote(found[1]).rsplit("/", 1)[-1] if found else ""
    if name and name != run:
        raise UserError(
            f"the link shows the run {name}, not {run}; give that run's folder, or only the part "
            "of the link after the run's name"
        )


def check_problems(problems: list[str]) -> None:
    """Raise UserError with what was invalid first; of a page, with those that there are."""
    if problems:
        pages = f"; the pages are {', '.join(PAGE_NAMES)}"
        raise UserError(problems[0].replace(SHOWN_INSTEAD, pages))
