-- What changed on the machines, and at which step: the median before and after. A value that is steady
-- between rare changes (a clock, a link's width, an error counter) counts with its first change, but not a
-- counter of bytes, time or ordinary work, which stands still only where little is done; a noisy one where ten bins before and ten after differ by more than least_ratio and least_noise times the noise.
-- reads: host_metrics
-- param: step_min int = 1 first step looked at: the start of a job changes everything
-- param: step_max int = 9223372036854775806 last step looked at
-- param: least_ratio float = 0.2 least change of a noisy value, as a share of the greater one
-- param: least_noise float = 5 least change of a noisy value, in standard deviations
-- param: levels text = null metrics, comma-separated, of which less_ratio is enough
-- param: less_ratio float = 0.1 least change of these where they are noisy
-- param: host text = null one host only
-- param: metrics text = null these metrics only, comma-separated
-- param: limit int = 200 most changes wanted, the clearest first
-- param: attempt int = newest
-- column: host  host name
-- column: device  host, cgroup, process, or a device such as gpu:UUID
-- column: metric  its name
-- column: rank  global rank of a process; -1 of a host or device
-- column: kind  count: a counter that stood still rose; state: a steady value became another; level: a noisy one
-- column: step  the first step after the change
-- column: ts_ns  when, aligned Unix ns
-- column: before  value, median, or count before it; of a level of a counter the rate per second
-- column: after  the same afterwards
-- column: noise  standard deviation that a normal value with this spread has; NULL of a steady value
-- column: clock_events  bits of gpu_clock_event_reasons that the device had afterwards; NULL none known
-- empty: nothing changed, or too little was recorded
WITH seen AS (
    SELECT host, device, metric, rank, step, ts_ns, value, is_counter, past, past_ns, gained
    FROM machine_steps($host_metrics, $attempt)
    WHERE step BETWEEN $step_min AND $step_max AND ($host IS NULL OR host = $host)
        AND ($metrics IS NULL OR list_contains(string_split($metrics, ','), metric))
        AND NOT ends_with(metric, '_readable')
        AND metric NOT IN ('watchdog_cpu_seconds_total', 'sampler_late_seconds', 'kernel_log_lines_total')
),
compared AS (  -- the first sample of a series has none before it within these steps
    SELECT *, row_number() OVER (PARTITION BY host, device, metric, rank ORDER BY ts_ns) > 1 AS has_past,
        has_past AND if(is_counter, gained > 0, value <> past) AS is_change
    FROM seen
),
kinds AS (
    SELECT host, device, metric, rank, count(*) FILTER (is_change) AS num_changes, count(*) AS num_samples,
        num_changes <= greatest(2, num_samples // 25) AS is_steady,
        if(list_contains(string_split(coalesce($levels, ''), ','), metric), $less_ratio, $least_ratio) AS ratio
    FROM compared GROUP BY host, device, metric, rank HAVING num_changes > 0
),
steady AS (
    SELECT c.host, c.device, c.metric, c.rank, if(any_value(is_counter), 'count', 'state') AS kind,
        arg_min(step, ts_ns) FILTER (is_change) AS step, min(ts_ns) FILTER (is_change) AS ts_ns,
        CAST(arg_min(past, ts_ns) FILTER (is_change) AS DOUBLE) AS before,
        CAST(if(any_value(is_counter), max(value), arg_min(value, ts_ns) FILTER (is_change)) AS DOUBLE) AS after,
        CAST(NULL AS DOUBLE) AS noise, CAST('inf' AS DOUBLE) AS clarity
    FROM compared c JOIN kinds k USING (host, device, metric, rank)
    WHERE k.is_steady AND NOT (is_counter AND regexp_matches(metric,
        '(bytes|joules|reads|writes|faults|switches|sent_segments|(busy|cpu|iowait|steal|read|write)_seconds)_total$'))
    GROUP BY c.host, c.device, c.metric, c.rank
),
bins AS (  -- at most 240 of a series: a run of days has too many samples to compare each
    SELECT c.host, c.device, c.metric, c.rank, min(step) AS step, min(ts_ns) AS ts_ns,
        if(any_value(is_counter), sum(gained) * 1e9 / nullif(sum(past_ns) FILTER (gained IS NOT NULL), 0),
           avg(value)) AS level, any_value(k.ratio) AS ratio
    FROM (SELECT *, ntile(240) OVER (PARTITION BY host, device, metric, rank ORDER BY ts_ns) AS bin
          FROM compared WHERE has_past) c
        JOIN kinds k USING (host, device, metric, rank) WHERE NOT k.is_steady
    GROUP BY c.host, c.device, c.metric, c.rank, bin
),
moving AS (  -- a level that never moves has no change: the windows below are dear
    SELECT host, device, metric, rank
    FROM (SELECT host, device, metric, rank, median(level) AS level, any_value(ratio) AS ratio
          FROM (SELECT *, ntile(24) OVER (PARTITION BY host, device, metric, rank ORDER BY ts_ns) AS part
                FROM bins WHERE level IS NOT NULL)
          GROUP BY host, device, metric, rank, part)
    GROUP BY host, device, metric, rank
    HAVING max(level) - min(level) >= 0.75 * any_value(ratio)
        * greatest(abs(max(level)), abs(min(level)))
),
around AS (
    SELECT *, median(level) OVER before_it AS before, median(level) OVER from_it AS after,
        count(level) OVER before_it AS num_before, count(level) OVER from_it AS num_after,
        greatest(quantile_cont(level, 0.75) OVER before_it - quantile_cont(level, 0.25) OVER before_it,
                 quantile_cont(level, 0.75) OVER from_it - quantile_cont(level, 0.25) OVER from_it)
            / 1.349 AS noise
    FROM bins JOIN moving USING (host, device, metric, rank) WHERE level IS NOT NULL
    WINDOW before_it AS (PARTITION BY host, device, metric, rank ORDER BY ts_ns ROWS BETWEEN 10 PRECEDING AND 1 PRECEDING),
        from_it AS (PARTITION BY host, device, metric, rank ORDER BY ts_ns ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING)
),
noisy AS (
    SELECT host, device, metric, rank, 'level' AS kind, step, ts_ns, before, after, noise,
        abs(after - before) / greatest(noise, 1e-6 * greatest(abs(before), abs(after))) AS clarity
    FROM around
    WHERE num_before = 10 AND num_after = 10 AND before <> after AND clarity >= $least_noise
        AND abs(after - before) >= ratio * greatest(abs(before), abs(after))
    QUALIFY row_number() OVER (PARTITION BY host, device, metric, rank
                               ORDER BY abs(after - before) DESC, clarity DESC, ts_ns) = 1
),
changes AS (SELECT * FROM steady UNION ALL SELECT * FROM noisy),
reasons AS (SELECT host, device, ts_ns, value FROM seen WHERE metric = 'gpu_clock_event_reasons'),
chosen AS (SELECT * FROM changes ORDER BY clarity DESC, step, host, device, metric LIMIT $limit)
SELECT c.host, c.device, c.metric, c.rank, c.kind, c.step, c.ts_ns, c.before, c.after, c.noise,
    (SELECT CAST(bit_or(CAST(r.value AS BIGINT)) AS BIGINT) FROM reasons r
     WHERE r.host = c.host AND r.device = c.device
        AND r.ts_ns BETWEEN c.ts_ns - 1500000000 AND c.ts_ns + 60000000000) AS clock_events
FROM chosen c ORDER BY c.step, c.ts_ns, c.host, c.device, c.metric, c.rank
