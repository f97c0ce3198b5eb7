"""Statements whose text itself is the load: doubling, deep, wide, long."""

from __future__ import annotations

import random


def doubling(rng: random.Random) -> str:
    """CTEs each of which reads the one before twice: a plan of 2^n."""
    return doubled(rng.randint(18, 40))


def doubled(num: int) -> str:
    """So many of them."""
    parts = [f"a{i} as (from a{i - 1} union all from a{i - 1})" for i in range(1, num)]
    return f"with a0 as (select 1), {', '.join(parts)} select count(*) from a{num - 1}"


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
    return "select columns('a.*') from (select " + ", ".join(
        f"1 as a{i}" for i in range(rng.choice((1_000, 30_000)))
    ) + ")"  # fmt: skip


def long_text(rng: random.Random) -> str:
    """A literal of megabytes."""
    return f"select length('{'x' * rng.choice((1 << 20, 1 << 23))}')"


LONG = (
    doubling, brackets, long_in, long_sum, long_case, many_unions, many_joins, deep_subquery,
    many_ctes, wide, long_text,
)  # fmt: skip
