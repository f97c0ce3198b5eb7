"""What the CUDA and HIP runtimes and their libraries write.

Source: texts of the CUDA runtime, of torch's allocator and of NCCL.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

CUDA_LABELS = (
    label(
        "fabric_manager", "initiating setting", "reset_gpu",
        "The fabric manager of the GPUs' switches is not running on this host, or was "
        "started again without a reset.",
        r"system not yet initialized|CUDA error 802|cuda runtime error \(802\)|"
        r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|"
        r"nvls\.cc..Cuda failure (?:\d+ )?'(?:invalid argument|initialization error)'|"
        r"NVLink SHARP \(NVLS\)..(?:CUDA error|failed)|"
        r"fabric ?manager..(?:fail|not running|"
        r"error|stopped)|nv-fabricmanager..(?:fail|error)|Cuda failure 802",
        "not yet initialized", "802", "systemnotready", "system_not_ready", "nvls",
        "fabricmanager", "fabric manager",
    ),
    label(
        "cuda_out_of_memory", "initiating memory", "fix_code",
        "The GPU's memory is full: a smaller micro-batch, checkpointed activations or "
        "sharding.",
        r"CUDA out of memory|CUDA error: out of memory|Cuda failure..out of memory|"
        r"Failed to CUDA (?:calloc|malloc|host alloc)|CUDA_ERROR_OUT_OF_MEMORY|"
        r"torch\.(?:cuda\.)?OutOfMemoryError|HIP out of memory|hipErrorOutOfMemory|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDA driver error: out of memory|"
        r"cuMemCreate..out of memory|cudaErrorMemoryAllocation|NPU out of memory",
        "out of memory", "outofmemory", "out_of_memory", "alloc_failed", "memoryallocation",
        "failed to cuda",
    ),
    label(
        "host_out_of_memory", "initiating memory", "raise_limit",
        "The host could not give the process more memory.",
        r"DefaultCPUAllocator: (?:can't|not enough) .{0,20}?memory|"
        r"DefaultCPUAllocator..allocate memory|^(?:numpy\S{0,40}\.)?_?ArrayMemoryError|"
        r"\bMemoryError\b|\[Errno 12\] Cannot allocate memory|std::bad_alloc|"
        r"cudaHostAlloc..out of memory",
        "defaultcpuallocator", "memoryerror", "errno 12", "bad_alloc", "cudahostalloc",
    ),
    label(
        "device_assert", "initiating user_code", "fix_code",
        "A check inside a kernel failed, mostly an index beyond a table: look at labels and "
        "token ids against the size of the table.",
        r"device-side assert|Assertion `[^`\n]{1,200}` failed|indexSelect\w*Index..Assertion|"
        r"CUDA_ERROR_ASSERT",
        "device-side assert", "assertion `", "cuda_error_assert",
    ),
    label(
        "illegal_address", "initiating software", "fix_code",
        "A kernel read or wrote outside of its memory; the same GPU twice: a fault of the "
        "GPU.",
        r"illegal memory access|illegal instruction was encountered|misaligned address|"
        r"cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|Memory access fault by GPU|"
        r"invalid program counter|Warp Illegal|"
        r"operation not supported on global/shared address space",
        "illegal", "misaligned", "memory access fault", "invalid program counter",
        "shared address space",
    ),
    label(
        "cuda_launch_failure", "initiating software", "restart",
        "The GPU ended a kernel: a fault of the program or of the GPU; the kernel log tells.",
        r"unspecified launch failure|CUDA error: unknown error|cudaErrorLaunchFailure|"
        r"CUDA_ERROR_LAUNCH_FAILED|CUDA error: (?:an )?(?:unspecified|hardware stack error)|"
        r"Cuda failure (?:\d+ )?'(?:unspecified launch|unknown error)|HSA_STATUS_ERROR|"
        r"CUDA error: the launch timed out",
        "launch failure", "unknown error", "launchfailure", "launch_failed", "hardware stack",
        "unspecified", "hsa_status", "launch timed out",
    ),
    label(
        "driver_mismatch", "initiating setting", "fix_setting",
        "The driver of this host does not fit the program's CUDA, or its parts do not fit each "
        "other: install one, or load it again.",
        r"Driver/library version mismatch|CUDA driver version is insufficient|"
        r"NVIDIA driver on your system is too old|unsupported display driver|"
        r"forward compatibility was attempted|cudaErrorSystemDriverMismatch|"
        r"CUDA error 80[34]\b|API mismatch: the client has the version",
        "version mismatch", "driver version", "driver on your system", "display driver",
        "forward compatibility", "drivermismatch", "cuda error 80", "api mismatch",
    ),
    label(
        "peer_access", "initiating setting", "fix_setting",
        "GPUs of this host cannot map each other's memory: other programs such as an X server hold "
        "the mappings, or the system does not allow it.",
        r"peer mapping resources exhausted|peer access is not supported|"
        r"cudaErrorTooManyPeers|failed to peer with device|TOO_MANY_PEERS",
        "peer mapping", "peer access", "toomanypeers", "too_many_peers", "peer with device",
    ),
    label(
        "gpu_missing", "initiating setting", "cordon_node",
        "The driver shows this process no usable GPU.",
        r"No CUDA GPUs are available|no CUDA-capable device|"
        r"all CUDA-capable devices are busy|"
        r"Found no NVIDIA driver|CUDA initialization error|Failed to initialize NVML|"
        r"CUDA unknown error - this may be due to an incorrectly set up environment|"
        r"CUDA error: initialization error|Torch not compiled with CUDA|"
        r"nvmlDeviceGetHandle\w* ?\(\) failed|No HIP GPUs are available",
        "cuda gpus", "hip gpus", "cuda-capable", "nvidia driver",
        "initialize nvml", "cuda unknown error", "initialization error", "not compiled with cuda",
        "nvmldevicegethandle",
    ),
    label(
        "no_such_gpu", "initiating setting", "fix_setting",
        "The program chose a GPU that its process does not see: it takes the rank for a GPU's "
        "number, there are more ranks on the host than GPUs, or a GPU is gone.",
        r"(?:CUDA|HIP) error: invalid device ordinal|Invalid device id\b",
        "invalid device",
    ),
    label(
        "no_kernel_image", "initiating setting", "fix_setting",
        "The program was built for other GPUs than these.",
        r"no kernel image is available|invalid device function|"
        r"PTX was compiled with an unsupported",
        "no kernel image", "invalid device function", "ptx was compiled",
    ),
    label(
        "library_failure", "initiating software", "fix_code",
        "A CUDA library failed: an earlier error on the device, its memory, or shapes that "
        "do not fit.",
        r"CUBLAS_STATUS_(?!SUCCESS)\w+|CUDNN_STATUS_(?!SUCCESS)\w+|cuDNN error|"
        r"CUFFT_\w+_(?:FAILED|ERROR)|CUSOLVER_STATUS_\w+|cuBLAS error|Triton Error \[CUDA\]|"
        r"CUSPARSE_STATUS_\w+",
        "cublas", "cudnn", "cufft", "cusolver", "triton error", "cusparse",
    ),
    label(
        "cuda_error", "initiating software", "restart",
        "The CUDA runtime reports an error; the kernel log tells whether the GPU is at fault.",
        r"CUDA error: \w|CUDA error \d+|Cuda failure (?:\d+ )?'|CUDA_ERROR_\w+|"
        r"AcceleratorError: CUDA",
        "cuda error", "cuda failure", "cuda_error",
    ),
)  # fmt: skip
