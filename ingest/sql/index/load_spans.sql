-- Spans that can lie in the windows asked for, with kinds and modes as numbers.
SELECT rank, step, ts_ns, greatest(dur_ns, 0) AS dur_ns, cpu_ns, recompute,
    list_position($kinds, kind) - 1 AS kind, list_position($modes, mode) - 1 AS mode, track
FROM read_parquet($spans, hive_partitioning = false)
WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
    AND (step BETWEEN $step_min AND $step_max
         OR (ts_ns < $to_ns AND ts_ns + dur_ns > $from_ns))
