-- Which ranks hold which experts: one row per router and EP rank, the rank's number in its EP group. Each EP group has
-- one rank with that number, so that all of these hold the same experts.
-- reads: expert_load
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: layer  layer of the whole model, from 0; -1 the router's name has no layer number
-- column: name  module that routes
-- column: ep  EP rank, from 0
-- column: first_expert  first expert on this EP rank
-- column: local_experts  experts on this EP rank
-- column: ranks  global ranks that hold them, in order
-- column: num_ranks  how many these are
-- empty: no router was recorded in these steps, or it is not known where experts lie
WITH placed AS (
    SELECT DISTINCT layer, router_name(name, layer, stage) AS name, first_expert, local_experts, rank
    FROM rows_by_layer($expert_load, $attempt, $step_min, $step_max)
    WHERE first_expert >= 0 AND local_experts > 0
)
SELECT layer, name,
    row_number() OVER (PARTITION BY layer, name ORDER BY first_expert, local_experts) - 1 AS ep,
    first_expert, local_experts, list(rank ORDER BY rank) AS ranks, count(*) AS num_ranks
FROM placed GROUP BY layer, name, first_expert, local_experts ORDER BY layer, name, first_expert, local_experts
