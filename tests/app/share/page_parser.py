"""Makes shared files and reads them: elements and texts of the page, the packed pictures in it."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from app.share.shared_file import shared_file
from app.view_state import View

HOSTILE = "<script>alert(1)<"
"""Name of a run whose hosts have such names, too."""


class Parsed(HTMLParser):
    """Elements of a page: [(tag, attributes)], text of each script, style and title."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.texts, self._open = [], [], [], []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        self._open.append(name)
        if name == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def handle_endtag(self, name):
        while self._open and self._open.pop() != name:
            pass

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def meta_of(packed):
    size = int.from_bytes(packed[:4], "little")
    return json.loads(packed[4 : 4 + size])


def page_of(hub, *given, **view):
    return shared_file(hub, View(**view), *given).content.decode()
