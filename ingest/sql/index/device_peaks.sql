-- Peaks of one device by the name torch gives it, as its vendor's data sheet: dense (no sparsity), 1e12
-- FLOP/s, of bf16 and fp16 (peak_tflops), of tf32, of float32 without tf32, of float8; bandwidth of its
-- memory in 1e9 B/s; NULL where the sheet has none, or where it depends on what the name does not say.
-- A torch device of an MI250X is one of its two dies: half of the sheet.
CREATE TABLE device_peaks AS FROM (VALUES
    ('\bV100-SXM2\b', 125, NULL, 15.7, NULL, 900, 'NVIDIA V100 data sheet, SXM2'),
    ('\bV100-PCIE\b', 112, NULL, 14, NULL, 900, 'NVIDIA V100 data sheet, PCIe'),
    ('\bA100\b', 312, 156, 19.5, NULL, NULL, 'NVIDIA A100 Tensor Core GPU data sheet'),
    ('\bA100-SXM4-80GB\b', 312, 156, 19.5, NULL, 2039, 'NVIDIA A100 80GB data sheet, SXM'),
    ('\bA100 80GB PCIe\b', 312, 156, 19.5, NULL, 1935, 'NVIDIA A100 80GB data sheet, PCIe'),
    ('\bA100-(SXM4|PCIE)-40GB\b', 312, 156, 19.5, NULL, 1555, 'NVIDIA A100 40GB data sheet'),
    ('\bH100 PCIe\b', 756, 378, 51, 1513, 2000, 'NVIDIA H100 Tensor Core GPU data sheet, PCIe'),
    ('\bH100 80GB HBM3\b', 989, 494, 67, 1979, 3350, 'NVIDIA H100 Tensor Core GPU data sheet, SXM'),
    ('\bH200$', 989, 494, 67, 1979, 4800, 'NVIDIA H200 Tensor Core GPU data sheet, SXM'),
    ('\bB200$', 2250, NULL, NULL, 4500, 8000, 'NVIDIA DGX B200 data sheet, per GPU'),
    ('\bMI250X$', 191.5, NULL, 47.85, NULL, 1638, 'AMD Instinct MI250X data sheet, per die'),
    ('\bMI300X\b', 1307, 653.7, 163.4, 2615, 5300, 'AMD Instinct MI300X data sheet')
) AS peaks(pattern, peak_tflops, tf32_tflops, float32_tflops, float8_tflops, gb_per_s, source);

-- NULL for a device the table does not know, and for a part of one (MIG)
CREATE MACRO peak_tflops_of(device) AS (
    SELECT CAST(max(peak_tflops) AS DOUBLE) FROM device_peaks
    WHERE regexp_matches(device, pattern) AND NOT contains(device, 'MIG')
);
