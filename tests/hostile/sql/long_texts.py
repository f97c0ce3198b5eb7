"""Statements whose text itself is the load: doubling, deep, wide, long."""

from __future__ import annotations

import random

DOUBLED = (
    "(from {0} union all from {0})",
    "(select a.x from {0} a, {0} b)",
    "not materialized (from {0} union all from {0})",
    "not materialized (from {0}, {0} b)",
    "not materialized (select a.x from {0} a join {0} b using (x))",
)
"""CTEs that read the one before twice; those not materialized are planned 2^n times."""


def doubling(rng: random.Random) -> str:
    """A plan, or an answer, of 2^n."""
    return doubled(rng.randint(16, 40), rng.choice(DOUBLED))


def doubled(num: int, body: str) -> str:
    """This many of them."""
    parts = [f"a{i} as {body.format(f'a{i - 1}')}" for i in range(1, num)]
    return f"with a0 as (select rank as x from steps), {', '.join(parts)} from a{num - 1}"


def brackets(rng: random.Random) -> str:
    """Deep nesting of one kind or another."""
    num = rng.choice((200, 900, 5_000, 50_000))
    opened, closed = rng.choice(
        (("(", ")"), ("[", "]"), ("-(", ")"), ("not (", ")"), ("abs(", ")"), ("(select ", ")"))
    )
    return f"select {opened * num}1{closed * num}"


def long_in(rng: random.Random) -> str:
    """A list of very many values."""
    return f"select 1 in ({','.join(map(str, range(rng.choice((10_000, 200_000)))))})"


def long_sum(rng: random.Random) -> str:
    """A chain of operators, which parsers may read by recursion."""
    sign = rng.choice((" + ", " || ", " or ", " and ", "::int::"))
    return "select " + sign.join(["1" if sign != "::int::" else "int"] * rng.choice((500, 30_000)))


def long_case(rng: random.Random) -> str:
    """CASE in CASE."""
    num = rng.choice((100, 2_000))
    return "select " + "case when 1 = 1 then " * num + "1" + " end" * num


def many_unions(rng: random.Random) -> str:
    """A set operation of very many queries."""
    return rng.choice((" union ", " union all ", " except ")).join(
        ["select 1"] * rng.choice((300, 5_000))
    )


def many_joins(rng: random.Random) -> str:
    """Joins whose order a planner tries out."""
    num = rng.choice((10, 40, 200))
    return "select count(*) from " + ", ".join(f"spans s{i}" for i in range(num))


def deep_subquery(rng: random.Random) -> str:
    """FROM in FROM."""
    num = rng.choice((50, 500, 3_000))
    return "from (" * num + "select 1" + ")" * num


def many_ctes(rng: random.Random) -> str:
    """Very many names."""
    num = rng.choice((500, 5_000))
    return f"with {', '.join(f'c{i} as (select {i})' for i in range(num))} select 1"


def wide(rng: random.Random) -> str:
    """Very many columns."""
    return (
        "select columns('a.*') from (select "
        + ", ".join(f"1 as a{i}" for i in range(rng.choice((1_000, 30_000))))
        + ")"
    )


def long_text(rng: random.Random) -> str:
    """A literal of megabytes."""
    return f"select length('{'x' * rng.choice((1 << 20, 1 << 23))}')"


LONG = (
    doubling,
    brackets,
    long_in,
    long_sum,
    long_case,
    many_unions,
    many_joins,
    deep_subquery,
    many_ctes,
    wide,
    long_text,
)
