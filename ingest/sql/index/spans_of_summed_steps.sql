-- What spans that were published of steps with sums add up to gives way to the sums.
DELETE FROM kind_rollup k USING summed_steps s
WHERE k.attempt = s.attempt AND k.rank = s.rank AND k.step = s.step
    AND s.attempt = $attempt AND s.step BETWEEN $step_min AND $step_max
