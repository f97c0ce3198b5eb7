-- Where every rank of an attempt sits: host, device and index on each parallel axis.
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs; NULL unknown
-- column: device  what it computes on; NULL unknown
-- column: world_size  ranks of the job, as it recorded; NULL unknown
-- column: pp  pipeline stage; NULL unknown
-- column: dp  replica; NULL unknown
-- column: cp  index on the context axis; NULL unknown or none
-- column: tp  index on the tensor axis; NULL unknown
-- column: ep  index on the expert axis; NULL unknown or none
-- empty: the attempt has no rank files
SELECT rank, nullif(host, '') AS host, nullif(device, '') AS device, world_size, pp, dp, cp, tp, ep
FROM ranks WHERE attempt = $attempt ORDER BY rank
