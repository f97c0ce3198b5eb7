"""What SQL that people write may consist of: the tree of the statement against lists of names.

DuckDB's statement type does not show what a statement does: a SELECT may hold COPY or DELETE in a
CTE. So its own serializer gives the tree, and every node in it has to be one of those below: what
is not listed is refused, be it a node, a table or a function that a later version of DuckDB adds.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ingest.errors import UserError
from trace_hooks.schema import CONTENT_TABLES

LONGEST_TEXT = 1_000_000
_DEEPEST = 1000
"""DuckDB's own limit for expressions; it finds out in quadratic time, which nothing interrupts."""

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLES = frozenset(
    {
        "BASE_TABLE",
        "SUBQUERY",
        "JOIN",
        "TABLE_FUNCTION",
        "EXPRESSION_LIST",
        "EMPTY",
        "PIVOT",
        "SHOW_REF",
    }
)
_MODIFIERS = frozenset(
    {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER", "DISTINCT_MODIFIER"}
)
_ORDERS = frozenset({"ORDER_DEFAULT", "ASCENDING", "DESCENDING"})
_NODES = _QUERY_NODES | _TABLES | _MODIFIERS | _ORDERS
_EXPRESSIONS = frozenset(
    {
        "CONSTANT",
        "COLUMN_REF",
        "STAR",
        "FUNCTION",
        "WINDOW",
        "CASE",
        "CAST",
        "COMPARISON",
        "CONJUNCTION",
        "OPERATOR",
        "SUBQUERY",
        "BETWEEN",
        "LAMBDA",
        "COLLATE",
        "POSITIONAL_REFERENCE",
        "TYPE",
    }
)
_OPERATORS = frozenset(
    {
        "!=",
        "!__postfix",
        "!~~",
        "!~~*",
        "%",
        "&",
        "&&",
        "*",
        "**",
        "+",
        "-",
        "->>",
        "/",
        "//",
        "<",
        "<->",
        "<<",
        "<=",
        "<=>",
        "<@",
        "=",
        ">",
        ">=",
        ">>",
        "@",
        "@>",
        "^",
        "^@",
        "|",
        "||",
        "~",
        "~~",
        "~~*",
        "~~~",
    }
)
_OWN_FUNCTIONS = frozenset({"bus_bytes", "middle", "median_of_others", "peak_tflops_of"})
_TABLE_FUNCTIONS = frozenset(
    {
        "range",
        "generate_series",
        "unnest",
        "json_each",
        "json_tree",
        "histogram",
        "histogram_values",
        "chosen_steps",
        "chosen_kinds",
        "chosen_collectives",
        "collectives_of",
        "slowdowns",
    }
)
"""DuckDB's own, and this project's questions over the index (sql/index/views.sql)."""
_OF_A_TABLE = ("histogram", "histogram_values")
"""Those whose first argument names a table."""
_TABLE_SHOWS = ("DESCRIBE", "SUMMARY", "SHOW")
_LISTS = ('"tables"', "__show_tables_expanded")
"""What SHOW TABLES and DESCRIBE without a table look at."""


@cache
def functions() -> frozenset[str]:
    """Names of the scalar functions, aggregates and window functions that may be used."""
    text = resources.files("ingest").joinpath("free_sql", "functions.txt").read_text("utf-8")
    return frozenset(text.split()) | _OPERATORS | _OWN_FUNCTIONS


def check_text(text: str) -> None:
    """Raise UserError for a text that is not worth parsing."""
    if not text.strip():
        raise UserError("there is no SQL; write a SELECT")
    if len(text) > LONGEST_TEXT:
        raise UserError(f"SQL: the text has {len(text)} characters; {LONGEST_TEXT} is the limit")
    if _depth(text) > _DEEPEST:
        raise UserError(f"SQL: brackets are nested deeper than {_DEEPEST}; write it flatter")


def check_tree(serialized: str, tables: Iterable[str]) -> None:
    """Raise UserError unless the tree is one SELECT of listed nodes over `tables`.

    `serialized` is what DuckDB's json_serialize_sql returns.
    """
    try:
        tree = json.loads(serialized)
    except (ValueError, RecursionError):
        raise UserError("SQL: the statement is nested too deeply; write it flatter") from None
    if not isinstance(tree, dict) or tree.get("error") is not False:
        raise UserError(_refusal(tree))
    statements = tree.get("statements")
    if not isinstance(statements, list) or len(statements) != 1:
        raise UserError("SQL: give exactly one SELECT; nothing else is possible here")
    try:
        _Walk(tables).query(statements[0].get("node"))
    except RecursionError:
        raise UserError("SQL: the statement is nested too deeply; write it flatter") from None


def _refusal(tree: Any) -> str:
    if isinstance(tree, dict) and tree.get("error_type") != "not implemented":
        return f"SQL: {tree.get('error_message', 'it cannot be parsed')!s}"
    return (
        "SQL: give exactly one SELECT; nothing else is possible here "
        "(PIVOT needs its values: ON column IN (...))"
    )


_UNKNOWN_FORM = "SQL: this statement has a form that is not known here"
Scope = frozenset[str]
"""Names of tables and CTEs that can be seen, `folded`."""
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class _Walk:
    """One walk over a tree; every method raises UserError at the first node that is not listed."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._tables = frozenset(folded(name) for name in tables)

    def query(self, node: Any, scope: Scope | None = None) -> None:
        """A query and what is nested in it; its CTEs are seen by it, and by later ones of them."""
        scope = self._tables if scope is None else scope
        if not isinstance(node, dict) or _text(node, "type") not in _QUERY_NODES:
            raise UserError(f"SQL: {_named(node)} is not possible here; only SELECT is")
        inside = self._ctes(node, scope)
        parts = {key: part for key, part in node.items() if key != "cte_map"}
        unaware = {"RECURSIVE_CTE_NODE": "left", "CTE_NODE": "query"}.get(node["type"])
        if unaware:  # this part of it does not see the name: there it would be a table, or a file
            self.query(parts.pop(unaware, None), inside)
            inside |= {folded(_text(node, "cte_name"))}
        self._parts(parts, inside)

    def _ctes(self, node: dict[str, Any], scope: Scope) -> Scope:
        """Walk the CTEs of a query; returns what it sees, its CTEs included."""
        for entry in _listed(node, "cte_map", "map"):
            value = entry.get("value")
            if not isinstance(value, dict):
                raise UserError(_UNKNOWN_FORM)
            rest = dict(value)
            self.query(rest.pop("query_node", None), scope)
            scope |= {folded(_text(entry, "key"))}
            self._parts(rest, scope)
        return scope

    def _parts(self, parts: dict[str, Any], scope: Scope) -> None:
        for part in parts.values():
            self._any(part, scope)

    def _any(self, part: Any, scope: Scope) -> None:
        if isinstance(part, list):
            for child in part:
                self._any(child, scope)
        elif isinstance(part, dict):
            self._dict(part, scope)

    def _dict(self, node: dict[str, Any], scope: Scope) -> None:
        if "class" in node:
            self._expression(node, scope)
        elif "sample_size" in node:  # of TABLESAMPLE: numbers
            return
        elif "type" not in node and "info_type" not in node:
            self._parts(node, scope)
        elif _text(node, "type") in _QUERY_NODES:
            self.query(node, scope)
        else:
            self._table(node, scope)

    def _expression(self, node: dict[str, Any], scope: Scope) -> None:
        kind = node["class"]
        if kind == "CONSTANT":
            return
        if kind == "PARAMETER":
            raise UserError("SQL: there are no values for parameters; write them into the SQL")
        if kind not in _EXPRESSIONS:
            raise UserError(f"SQL: {_named(node)} is not possible here")
        if kind in ("FUNCTION", "WINDOW"):
            self._function(node, functions())
        self._parts(node, scope)

    def _function(self, node: dict[str, Any], listed: frozenset[str]) -> None:
        path = _path(node)
        name = folded(path[-1])
        # x.upper() of a column looks as if x were a schema; in all schemas the names are the same
        is_method = len(path) > 1 and listed is functions()
        is_listed = name in listed and folded(_text(node, "function_name")) == name
        if not is_listed or (len(path) > 1 and not is_method):
            raise UserError(
                f"SQL: the function {'.'.join(path)[:100]} is not among those that may be used "
                "here; docs/data-model.md lists those that are"
            )

    def _table(self, node: dict[str, Any], scope: Scope) -> None:
        kind = _text(node, "type")
        if kind not in _NODES:
            raise UserError(f"SQL: {_named(node)} is not possible here; only SELECT is")
        if kind == "BASE_TABLE":
            self._named_table(node, scope)
        elif kind == "SHOW_REF":
            self._show(node, scope)
        elif kind == "PIVOT" and _enums(node):
            raise UserError("SQL: PIVOT needs its values here: ON column IN (...)")
        elif kind == "TABLE_FUNCTION":
            function = node.get("function")
            if not isinstance(function, dict) or function.get("class") != "FUNCTION":
                raise UserError(_UNKNOWN_FORM)
            self._function(function, _TABLE_FUNCTIONS)
            if folded(_text(function, "function_name")) in _OF_A_TABLE:
                self._of_table(function, scope)
            self._parts(function, scope)
            self._parts({key: part for key, part in node.items() if key != "function"}, scope)
            return
        self._parts(node, scope)

    def _named_table(self, node: dict[str, Any], scope: Scope) -> None:
        path = _path(node)
        name = path[-1]
        if len(path) > 1 and [folded(part) for part in path[:-1]] != ["main"]:
            raise UserError(f"SQL: write {name[:100]} without a schema")
        seen = scope if len(path) == 1 else self._tables  # a CTE has no schema
        if folded(name) not in seen or _text(node, "table_name") != name:
            raise UserError(f"SQL: {_no_table(name)}")
        if node.get("at_clause") is not None:
            raise UserError("SQL: AT is not possible here")

    def _of_table(self, function: dict[str, Any], scope: Scope) -> None:
        """The table that is named as an argument, by a text or as a column is."""
        first, *others = _listed(function, "arguments") or [{}]
        name = _name_given(first.get("expression"))
        is_first = _text(first, "name") in ("", "source")
        if not name or not is_first or any(_text(other, "name") == "source" for other in others):
            raise UserError("SQL: histogram needs the name of a table as its first argument")
        # a text with a dot would be read as a schema and a name, or as a file
        if folded(name) not in scope or not name.isidentifier():
            raise UserError(f"SQL: {_no_table(name)}")

    def _show(self, node: dict[str, Any], scope: Scope) -> None:
        name, kind = _text(node, "table_name"), node.get("show_type")
        is_list = kind == "SHOW_SPECIAL" and name in _LISTS
        is_table = kind in _TABLE_SHOWS and (not name or folded(name) in scope)
        if not (is_list or is_table) or node.get("schema_name") or node.get("catalog_name"):
            raise UserError("SQL: SHOW TABLES, DESCRIBE table and SUMMARIZE table are possible")


def _name_given(expression: Any) -> str:
    """The name that a text or a column stands for; empty for anything else."""
    node = expression if isinstance(expression, dict) else {}
    literal, path = node.get("literal"), node.get("column_names")
    if node.get("class") == "CONSTANT" and isinstance(literal, dict):
        return _text(literal, "text") if literal.get("kind") == "STRING" else ""
    return str(path[0]) if isinstance(path, list) and len(path) == 1 else ""


def folded(name: str) -> str:
    """A name as DuckDB compares it: letters of ASCII only have no case."""
    return name.translate(_LOWER)


def _no_table(name: str) -> str:
    if folded(name) in CONTENT_TABLES:
        return (
            f"{name} holds content of the model, which SQL does not see; the page Model shows it, "
            "and `rankscope query --content` reads it on this machine"
        )
    return f"there is no table “{name[:100]}” in this run; SHOW TABLES lists the tables"


def _enums(node: dict[str, Any]) -> bool:
    return any(pivot.get("pivot_enum") for pivot in _listed(node, "pivots"))


def _listed(node: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    """A list below these keys; raises UserError where something else is there."""
    nodes: Any = node
    for key in keys:
        nodes = nodes.get(key) if isinstance(nodes, dict) else None
    if nodes is None:
        return []
    if not isinstance(nodes, list) or not all(isinstance(child, dict) for child in nodes):
        raise UserError(_UNKNOWN_FORM)
    return nodes


def _path(node: dict[str, Any]) -> list[str]:
    """The parts of a qualified name; raises UserError where there are none."""
    named = node.get("qualified_name")
    path = named.get("path") if isinstance(named, dict) else None
    if not isinstance(path, list) or not path or not all(isinstance(part, str) for part in path):
        raise UserError(_UNKNOWN_FORM)
    return path


def _text(node: dict[str, Any], key: str) -> str:
    text = node.get(key)
    return text if isinstance(text, str) else ""


def _named(node: Any) -> str:
    """What a node is, as people write it."""
    if not isinstance(node, dict):
        return "this"
    name = str(node.get("type") or node.get("info_type") or node.get("class") or "this")
    return name.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")


def _depth(text: str) -> int:
    """How deep brackets are nested at most; those inside quotes count, too."""
    signs = np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)
    opened, closed = np.isin(signs, list(b"([{")), np.isin(signs, list(b")]}"))
    return int(np.cumsum(opened.astype(np.int64) - closed).max(initial=0))
