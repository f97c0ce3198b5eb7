-- What the device of each rank could do at most, by its data sheet.
-- param: attempt int = newest
-- column: rank  global rank
-- column: device  its name; NULL or empty unknown
-- column: half_tflops  dense bf16 and fp16, 1e12 FLOP/s; NULL unknown
-- column: tf32_tflops  dense tf32, 1e12 FLOP/s; NULL unknown, or the device has none
-- column: float32_tflops  float32 without tf32, 1e12 FLOP/s; NULL unknown
-- column: float8_tflops  dense float8, 1e12 FLOP/s; NULL unknown, or the device has none
-- column: gb_per_s  bandwidth of its memory, 1e9 B/s; NULL unknown
-- empty: no rank of this attempt left a file
SELECT r.rank, r.device, max(peak_tflops)::DOUBLE AS half_tflops, max(p.tf32_tflops)::DOUBLE AS tf32_tflops,
    max(p.float32_tflops)::DOUBLE AS float32_tflops, max(p.float8_tflops)::DOUBLE AS float8_tflops,
    max(p.gb_per_s)::DOUBLE AS gb_per_s
FROM ranks r LEFT JOIN device_peaks p
    ON regexp_matches(r.device, p.pattern) AND NOT contains(r.device, 'MIG')
WHERE r.attempt = $attempt
GROUP BY r.rank, r.device ORDER BY r.rank
