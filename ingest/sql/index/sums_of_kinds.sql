-- Steps with sums, by kind of span.
INSERT INTO kind_rollup BY NAME
SELECT k.* FROM summed_kinds k SEMI JOIN step_rollup USING (attempt, rank, step)
WHERE k.attempt = $attempt AND k.step BETWEEN $step_min AND $step_max
