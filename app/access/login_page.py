"""The page with the form for the token, and the page that redirects to its own server."""

from __future__ import annotations

import html
from collections.abc import Sequence

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{head}
<meta name="viewport" content="width=device-width, initial-scale=1"><title>rankscope</title>
<style>
:root {{ color-scheme: light dark; --page: #F5F6F8; --panel: #FFF; --line: #DCE0E6; --text: #151A22;
  --quiet: #566070; --link: #1B5FBF; }}
@media (prefers-color-scheme: dark) {{ :root {{ --page: #0B0D11; --panel: #12151B; --line: #262C36;
  --text: #E8EBF0; --quiet: #98A1AF; --link: #6FB1FF; }} }}
body {{ margin: 0; padding: 16vh 16px 0; background: var(--page); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; }}
main {{ max-width: 24em; margin: auto; padding: 20px 24px 24px; background: var(--panel);
  border: 1px solid var(--line); border-radius: 8px; }}
h1 {{ margin: 0 0 8px; font-size: 16px; }}
p {{ margin: 0 0 16px; color: var(--quiet); }}
a {{ color: var(--link); }}
form {{ display: flex; gap: 8px; align-items: end; }}
label {{ flex: 1; }}
input, button {{ font: inherit; padding: 6px 10px; color: inherit; background: var(--page);
  border: 1px solid var(--line); border-radius: 6px; }}
input {{ display: block; width: 100%; box-sizing: border-box; margin-top: 4px; }}
:focus-visible {{ outline: 2px solid var(--link); outline-offset: 1px; }}
</style></head>
<body><main>{body}</main></body></html>"""
_FORM = """<h1>rankscope</h1><p>{text} Ask whoever started the server.</p>
<form action="{action}">{fields}<label>Token <input name="token" type="password"
autocomplete="current-password" autofocus required></label><button>Open</button></form>"""


def form_page(text: str, action: str, parameters: Sequence[tuple[str, str]]) -> str:
    """A form that sends the token to the path `action` with the other parameters of its query."""
    fields = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in parameters
    )
    form = _FORM.format(text=html.escape(text), action=html.escape(action), fields=fields)
    return _PAGE.format(head="", body=form)


def redirect_page(address: str) -> str:
    """A page that opens the address at once, as a link from this server."""
    address = html.escape(address)
    return _PAGE.format(
        head=f'<meta http-equiv="refresh" content="0;url={address}">',
        body=f'<a href="{address}">Open the dashboard</a>',
    )
