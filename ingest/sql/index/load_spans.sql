-- Spans that can lie in the given windows, with kinds and modes as numbers. A kind that is not known
-- here, of a newer schema, is work of the host.
SELECT s.rank, s.step, s.ts_ns, greatest(s.dur_ns, 0) AS dur_ns, s.cpu_ns, s.recompute,
    coalesce(list_position($kinds, if(ends_with(s.kind, '_comm'), coalesce(c.kind, s.kind), s.kind)),
        list_position($kinds, 'host')) - 1 AS kind,
    list_position($modes, s.mode) - 1 AS mode, s.track
FROM read_parquet($spans, hive_partitioning = false) s
    LEFT JOIN corrected_kinds c USING (attempt, group_id)
WHERE s.attempt = $attempt AND s.rank BETWEEN $rank_min AND $rank_max
    AND (s.step BETWEEN $step_min AND $step_max
         OR (s.ts_ns < $to_ns AND s.ts_ns + s.dur_ns > $from_ns))
