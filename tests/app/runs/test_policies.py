"""The table of cached answers is complete, and agrees with the code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import app
from app.runs.policies import USES

APP = Path(app.__file__).parent
GENERIC = {"web/answers.py", "runs/cache.py"}
"""Modules that pass on the keys of others."""


def calls_of(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Calls that cache an answer, each with the function that it stands in."""

    def walk(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        if isinstance(node, ast.Call) and (caches(node) or prefetches(node)):
            yield node, scope
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inner)

    yield from walk(tree, tree)


def caches(call: ast.Call) -> bool:
    """Whether it is `X.cache.get(...)` or `X.cache.fetch(...)`."""
    made = call.func
    return (
        isinstance(made, ast.Attribute)
        and made.attr in ("get", "fetch")
        and isinstance(made.value, ast.Attribute)
        and made.value.attr == "cache"
    )


def prefetches(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "answer_prefetched"


def kind_of(key: ast.expr, scope: ast.AST, tree: ast.AST) -> str:
    """First part of a key, also of one in a variable or from a function of the module."""
    if isinstance(key, ast.Tuple):
        return kind_of(key.elts[0], scope, tree)
    if isinstance(key, ast.Constant):
        return str(key.value)
    if isinstance(key, ast.JoinedStr):
        return ast.unparse(key)[2:-1]
    if isinstance(key, ast.Name):
        values = [
            node.value
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == key.id
        ]
        assert len(values) == 1, f"key {key.id} is not assigned once, line {key.lineno}"
        return kind_of(values[0], scope, tree)
    assert isinstance(key, ast.Call), f"what is the key in line {key.lineno}?"
    [returned] = [
        node.value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == ast.unparse(key.func)
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    ]
    assert returned is not None
    return kind_of(returned, scope, tree)


def policy_of(call: ast.Call) -> str:
    """Name of the policy, as policies.py spells it."""
    if prefetches(call):
        return "prefetch"
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    policy = call.args[3] if len(call.args) > 3 else given.get("policy")
    if policy is None:
        return "fresh"
    name = policy.func if isinstance(policy, ast.Call) else policy
    return ast.unparse(name).lower().replace("_", "-")


def cached_answers() -> dict[str, set[tuple[str, str]]]:
    """Kind -> (policy, module), as the code has it."""
    answers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in APP.rglob("*.py"):
        module = path.relative_to(APP).as_posix()
        tree = ast.parse(path.read_text())
        for call, scope in calls_of(tree) if module not in GENERIC else ():
            key = call.args[2] if prefetches(call) else call.args[1]
            answers[kind_of(key, scope, tree)].add((policy_of(call), module))
    return answers


def test_the_table_names_the_requesters_and_the_policy_of_each_answer() -> None:
    table = {kind: {(use.policy, module) for module in use.asked_by} for kind, use in USES.items()}
    assert cached_answers() == table


def test_every_row_has_a_reason() -> None:
    assert [kind for kind, use in USES.items() if not use.why.strip()] == []


def test_nothing_else_caches_answers_about_runs() -> None:
    """The store itself is used by the cache alone."""
    users = {
        path.relative_to(APP).as_posix()
        for path in APP.rglob("*.py")
        if "AnswerStore" in path.read_text()
    }
    assert users == {"runs/answer_store.py", "runs/cache.py"}
