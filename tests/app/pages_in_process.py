"""Pages without a browser: the text of a tree of components, callbacks as browsers call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dash.development.base_component import Component
from flask import Flask


def parts(tree: Any) -> Iterator[Any]:
    """Every component and text of a tree, outside in."""
    if isinstance(tree, list | tuple):
        for one in tree:
            yield from parts(one)
    elif tree is not None:
        yield tree
        if isinstance(tree, Component):
            yield from parts(getattr(tree, "children", None))


def text_of(tree: Any) -> str:
    """All text of a tree, in order."""
    return " ".join(str(part) for part in parts(tree) if not isinstance(part, Component))


def having(tree: Any, **values: Any) -> list[Component]:
    """Components with these properties; data_act stands for data-act."""
    rows = []
    for part in parts(tree):
        if isinstance(part, Component):
            own = part.to_plotly_json()["props"]
            if all(own.get(k.replace("_", "-"), own.get(k)) == v for k, v in values.items()):
                rows.append(part)
    return rows


def call(server: Flask, output: str, changed: str, **values: Any) -> dict[str, Any] | None:
    """Response of the callback with this output; values: ID__PROPERTY. None: no update.

    `output` is one or more ID.PROPERTY, comma-separated, in the callback's order.
    """
    client = server.test_client()
    outputs = [dict(zip(("id", "property"), o.split("."), strict=True)) for o in output.split(",")]
    name = output if len(outputs) == 1 else ".." + "...".join(output.split(",")) + ".."
    (known,) = [d for d in client.get("/_dash-dependencies").get_json() if d["output"] == name]
    fields = {key.replace("__", ".").replace("_", "-"): value for key, value in values.items()}

    def filled(named: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{**one, "value": fields.get(f"{one['id']}.{one['property']}")} for one in named]

    answer = client.post(
        "/_dash-update-component",
        json={
            "output": name,
            "outputs": outputs[0] if len(outputs) == 1 else outputs,
            "inputs": filled(known["inputs"]),
            "state": filled(known["state"]),
            "changedPropIds": [changed],
            "parsedChangedPropsIds": [changed],
        },
    )
    assert answer.status_code in (200, 204), answer.get_data(as_text=True)
    return answer.get_json()["response"] if answer.status_code == 200 else None


def plain_text(tree: Any) -> str:
    """All text of a tree that came as JSON."""
    if isinstance(tree, dict):
        return plain_text(tree.get("props", {}).get("children"))
    if isinstance(tree, list):
        return " ".join(filter(None, map(plain_text, tree)))
    return "" if tree is None else str(tree)
