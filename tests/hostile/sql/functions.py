"""Calls of every function of the running DuckDB, with arguments of the types it declares."""

from __future__ import annotations

import random
import re

from tests.hostile.sql.catalog import Function
from tests.hostile.sql.grammar import Grammar

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATHS = re.compile(r"path|file|uri|location|database|directory|source")
_HUGE = ("9223372036854775807", "-9223372036854775808", "2000000000")
_VALUES = {
    "BOOLEAN": ("true", "false", "NULL"),
    "DOUBLE": ("1.5", "0", "-2.25", "'nan'::double", "'inf'::double"),
    "DATE": ("date '2024-02-29'", "current_date"),
    "TIMESTAMP": ("timestamp '2024-01-02 03:04:05'", "make_timestamp(0)"),
    "TIME": ("time '03:04:05'",),
    "INTERVAL": ("interval 1 day", "interval '2 months'"),
    "BLOB": (r"'\x41\x00'::blob", "encode('a')"),
    "BIT": ("'101'::bit",),
    "UUID": ("gen_random_uuid()",),
    "JSON": ("""'{"a": [1, 2]}'::json""", "'[]'::json"),
    "LAMBDA": ("lambda a: a", "lambda a, b: a", "a -> a", "lambda a: error(a::varchar)"),
    "STRUCT": ("{'a': 1, 'b': 'x'}",),
    "MAP": ("map {'a': 'b'}", "map {1: 2}"),
    "UNION": ("union_value(a := 1)",),
    "GEOMETRY": ("st_geomfromwkb('\\x01'::blob)", "NULL"),
    "TABLE": ("(from steps)", "(from device_peaks)"),
    "TUPLE": ("('a', 1)",),
    "VARIANT": ("'a'::variant", "1::variant"),
}
_ALIKE = {"FLOAT": "DOUBLE", "DECIMAL": "DOUBLE"}
_NESTED = re.compile(r"(.+)\[\w*\]$")


class Calls:
    """Makes statements that call functions."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def statement(self, function: Function, rng: random.Random) -> str:
        """A statement that calls the function."""
        if function.kind == "pragma":
            return self._pragma(function, rng)
        if function.kind in ("table", "table_macro"):
            return self._table(function, rng)
        call = self._call(function, rng)
        if function.kind == "window":
            return f"select {call} over (order by step) from steps"
        if function.kind == "aggregate":
            return rng.choice(
                (
                    "select {} from steps",
                    "select {} filter (rank > 0) from steps group by rank",
                    "select {} over (partition by rank) from steps",
                    "select (select {}) from steps limit 2",
                    "select rank from steps group by all having ({}) is not null",
                )
            ).format(call)
        return rng.choice(
            (
                "select {}",
                "select {} as a",
                "select {} from steps limit 2",
                "from (select {})",
                "select list_transform([1], lambda z: {})",
                "select 1 where ({}) is null",
                "values (({}))",
                "select try({})",
            )
        ).format(call)

    def _name(self, function: Function, rng: random.Random) -> str:
        name = function.name
        if not _PLAIN.fullmatch(name) or rng.random() < 0.1:
            name = '"' + name.replace('"', '""') + '"'
        if rng.random() < 0.1 and function.kind != "pragma":
            name = (
                rng.choice(("main.", "system.main.", "system.", "pg_catalog.", "memory.main."))
                + name
            )
        return name

    def _call(self, function: Function, rng: random.Random) -> str:
        values = self._arguments(function, rng)
        name = self._name(function, rng)
        if values and rng.random() < 0.15 and "." not in name:
            return f"({values[0]}).{name}({', '.join(values[1:])})"
        distinct = "distinct " if function.kind == "aggregate" and rng.random() < 0.1 else ""
        return f"{name}({distinct}{', '.join(values)})"

    def _table(self, function: Function, rng: random.Random) -> str:
        num = len(function.types)
        first = num if num <= 3 and rng.random() < 0.7 else rng.randint(0, min(num, 2))
        values = [self._value(*pair, rng) for pair in self._typed(function)[:first]]
        rest = self._typed(function)[first:]
        for name, type_ in rng.sample(rest, min(len(rest), rng.choice((0, 0, 1, 1, 2, 4)))):
            sign = rng.choice((":=", "=", "=>"))
            values.append(f'"{name}" {sign} {self._value(name, type_, rng)}')
        call = f"{self._name(function, rng)}({', '.join(values)})"
        forms = (
            "from {}",
            "from {}",
            "select * from {} limit 3",
            "select count(*) from {}",
            "call {}",
            "from range(1) r, lateral (from {})",
            "with x as (from {}) from x",
            "describe from {}",
            "select t::varchar from {} t",
        )
        return rng.choice(forms).format(call)

    def _pragma(self, function: Function, rng: random.Random) -> str:
        values = self._arguments(function, rng)
        call = f"{function.name}({', '.join(values)})" if values else function.name
        forms = ("pragma {}", "pragma {}", "call pragma_{}", "from pragma_{}", "select pragma_{}")
        made = rng.choice(forms).format(call)
        return made if values or made.startswith("pragma") else made + "()"

    def _typed(self, function: Function) -> list[tuple[str, str]]:
        names = function.names + ("",) * (len(function.types) - len(function.names))
        return list(zip(names, function.types, strict=False))

    def _arguments(self, function: Function, rng: random.Random) -> list[str]:
        values = [self._value(name, type_, rng) for name, type_ in self._typed(function)]
        if function.varargs:
            values += [self._value("", function.varargs, rng) for _ in range(rng.randint(0, 3))]
        if values and rng.random() < 0.05:
            values[rng.randrange(len(values))] = rng.choice(("NULL", "*", "rank", "?", "$1"))
        return values

    def _value(self, name: str, type_: str, rng: random.Random) -> str:
        """SQL of a value of the type; of a path where the name of the parameter indicates one."""
        nested = _NESTED.match(type_)
        if nested:
            items = [self._value(name, nested[1], rng) for _ in range(rng.randint(1, 3))]
            return f"[{', '.join(items)}]"
        if _PATHS.search(name) and type_ in ("VARCHAR", "ANY", "VARIANT"):
            return self.grammar.text("file_value", rng)
        base = re.split(r"[ (_]", type_)[0].removesuffix("TZ")
        known = _VALUES.get(_ALIKE.get(base, base))
        if known:
            return rng.choice(known)
        if base == "VARCHAR":
            return self.grammar.text("text_value", rng)
        if "INT" in base or base in ("BIGNUM", "HUGEINT"):
            return rng.choice(_HUGE) if rng.random() < 0.02 else self.grammar.text("small", rng)
        return rng.choice(
            (
                self.grammar.text("text_value", rng),
                self.grammar.text("small", rng),
                "rank",
                "[1, 2]",
                "{'a': 1}",
            )
        )
