"""SELECTs: those that want to exhaust the server, and those of real work."""

from __future__ import annotations

_DOUBLING = ", ".join(
    f"a{n} AS NOT MATERIALIZED (FROM a{n - 1} UNION ALL FROM a{n - 1})" for n in range(1, 26)
)

HOSTILE = {
    "2e9 numbers summed": "SELECT list_sum(range(2000000000))",
    "text of 4 GB": "SELECT length(repeat('a', 4000000000))",
    "2e8 numbers sorted": "SELECT list_sort(range(200000000))[1]",
    "distance of long texts": (
        "SELECT damerau_levenshtein(repeat('ab', 100000), repeat('ba', 100000))"
    ),
    "25 doubling CTEs": f"WITH a0 AS (SELECT 1 AS x), {_DOUBLING} SELECT count(*) FROM a25",  # noqa: S608
    "endless recursion": (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    ),
    "cross join of ranges": "SELECT count(*) FROM range(10000000) a, range(10000000) b",
    "cross join of spans": (
        "SELECT sum(a.dur_ns * b.dur_ns + c.dur_ns) FROM spans a, spans b, spans c"
    ),
    "list of 2e9": "SELECT len(list(i)) FROM range(2000000000) t(i)",
    "text of 2e9 numbers": "SELECT length(string_agg(i::VARCHAR, ',')) FROM range(2000000000) t(i)",
    "5e9 distinct": "SELECT count(DISTINCT i) FROM range(5000000000) t(i)",
    "3e9 sorted": "SELECT i FROM range(3000000000) t(i) ORDER BY hash(i) OFFSET 1000000000 LIMIT 1",
    "window over 1e9": (
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS n"
        " FROM range(1000000000) t(i))"
    ),
    "lists in lists": (
        "SELECT list_sum([len([y + x FOR y IN range(100000)]) FOR x IN range(100000)])"
    ),
    "regular expressions": (
        "SELECT count(*) FROM range(1000000000) t(i)"
        " WHERE regexp_matches(repeat(i::VARCHAR, 50), '(0|1|2)*3(4|5)*$')"
    ),
    "sum of 10,000 terms": "SELECT " + "+".join(["1"] * 10_000),
    "endless rows": "SELECT i, repeat('row', 100) FROM range(1000000000000) t(i)",
}

LASTING = ("cross join of ranges", "cross join of spans", "25 doubling CTEs", "endless recursion")
"""Those that go on for longer than anybody waits, with little memory."""

ORDINARY = {
    "count by kind": "SELECT kind, count(*) AS n, sum(dur_ns) AS ns FROM spans GROUP BY kind",
    "sum by rank": (
        "SELECT rank, sum(dur_ns) / 1e6 AS ms FROM spans WHERE kind IN ('forward', 'backward')"
        " GROUP BY rank ORDER BY ms DESC"
    ),
    "spans of slow steps": (
        "SELECT s.rank, s.step, count(*) AS n, sum(s.dur_ns) AS ns FROM spans s"
        " JOIN steps t USING (attempt, rank, step)"
        " WHERE t.dur_ns > (SELECT avg(dur_ns) FROM steps) GROUP BY s.rank, s.step"
    ),
    "percentiles of steps": (
        "SELECT rank, quantile_cont(dur_ns, [0.5, 0.95]) AS q FROM steps GROUP BY rank"
    ),
    "change from step to step": (
        "SELECT rank, step, dur_ns - lag(dur_ns) OVER (PARTITION BY rank ORDER BY step) AS more"
        " FROM steps ORDER BY more DESC NULLS LAST LIMIT 20"
    ),
    "100 spans": "SELECT * FROM spans LIMIT 100",
    "longest spans": "SELECT rank, step, kind, dur_ns FROM spans ORDER BY dur_ns DESC LIMIT 50",
    "spans of one step": (
        "SELECT rank, kind, sum(dur_ns) AS ns FROM spans WHERE step = 5 GROUP BY ALL ORDER BY ALL"
    ),
    "wait in collectives": (
        "SELECT group_id, op, avg(end_ns - start_ns) / 1e6 AS ms, max(num_bytes) AS bytes"
        " FROM collectives WHERE end_ns >= 0 GROUP BY ALL ORDER BY ms DESC"
    ),
    "last to arrive": (
        "SELECT rank, count(*) AS n FROM (SELECT group_id, seq, arg_max(rank, start_ns) AS rank"
        " FROM collectives GROUP BY group_id, seq) GROUP BY rank ORDER BY n DESC"
    ),
    "share of communication": (
        "SELECT step, sum(dur_ns) FILTER (kind LIKE '%comm') / sum(dur_ns) AS share"
        " FROM spans WHERE depth = 0 GROUP BY step ORDER BY step"
    ),
    "rollup by host": (
        "SELECT r.host, avg(s.compute_ns) / 1e6 AS ms FROM step_rollup s"
        " JOIN ranks r USING (attempt, rank) GROUP BY r.host"
    ),
}
