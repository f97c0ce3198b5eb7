-- Peak of one device by the name torch gives it: dense bf16 (no sparsity), 1e12 FLOP/s, as its
-- vendor's data sheet. A torch device of an MI250X is one of its two dies: half of the 383.
CREATE TABLE device_peaks AS FROM (VALUES
    ('\bA100\b', 312, 'NVIDIA A100 Tensor Core GPU data sheet'),
    ('\bH100 PCIe\b', 756, 'NVIDIA H100 Tensor Core GPU data sheet, PCIe'),
    ('\bH100 80GB HBM3\b', 989, 'NVIDIA H100 Tensor Core GPU data sheet, SXM'),
    ('\bH200$', 989, 'NVIDIA H200 Tensor Core GPU data sheet, SXM'),
    ('\bB200$', 2250, 'NVIDIA DGX B200 data sheet, per GPU'),
    ('\bMI250X$', 191.5, 'AMD Instinct MI250X data sheet, per die'),
    ('\bMI300X\b', 1307, 'AMD Instinct MI300X data sheet')
) AS peaks(pattern, peak_tflops, source);

-- NULL for a device the table does not know, and for a part of one (MIG)
CREATE MACRO peak_tflops_of(device) AS (
    SELECT CAST(max(peak_tflops) AS DOUBLE) FROM device_peaks
    WHERE regexp_matches(device, pattern) AND NOT contains(device, 'MIG')
);
