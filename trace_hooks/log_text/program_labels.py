"""What the training program and its libraries write: CUDA, NCCL, gloo, loaders, settings.

Source: texts of torch (c10d, CUDA allocator, data loader), NCCL and the CUDA runtime.
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
        r"nvls\.cc..Cuda failure 1 'invalid argument'|fabric ?manager..(?:fail|not running|"
        r"error|stopped)|nv-fabricmanager..(?:fail|error)|Cuda failure 802",
        "not yet initialized", "802", "systemnotready", "system_not_ready", "nvls",
        "fabricmanager", "fabric manager",
    ),
    label(
        "cuda_out_of_memory", "initiating memory", "fix_code",
        "The GPU's memory is full: a smaller micro-batch, checkpointed activations or "
        "sharding.",
        r"CUDA out of memory|CUDA error: out of memory|Cuda failure..out of memory|"
        r"torch\.(?:cuda\.)?OutOfMemoryError|HIP out of memory|hipErrorOutOfMemory|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDA driver error: out of memory|"
        r"cuMemCreate..out of memory|cudaErrorMemoryAllocation|NPU out of memory",
        "out of memory", "outofmemory", "alloc_failed", "memoryallocation",
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
        r"Cuda failure 'unspecified launch|HSA_STATUS_ERROR",
        "launch failure", "unknown error", "launchfailure", "launch_failed", "hardware stack",
        "unspecified", "hsa_status",
    ),
    label(
        "gpu_missing", "initiating setting", "cordon_node",
        "The driver shows this process no usable GPU.",
        r"No CUDA GPUs are available|no CUDA-capable device|"
        r"CUDA error: invalid device ordinal|all CUDA-capable devices are busy|"
        r"Found no NVIDIA driver|CUDA driver version is insufficient|"
        r"CUDA initialization error|Failed to initialize NVML|"
        r"CUDA unknown error - this may be due to an incorrectly set up environment|"
        r"Driver/library version mismatch|CUDA error: initialization error",
        "cuda gpus", "cuda-capable", "invalid device ordinal", "nvidia driver", "driver version",
        "initialize nvml", "cuda unknown error", "library version mismatch",
        "initialization error",
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

PROGRAM_LABELS = (
    label(
        "gil_held", "initiating software", "fix_code",
        "A thread of this process held Python's lock and never gave it back.",
        r"Could not acquire GIL within|possible GIL induced hang|GIL checker..(?:not|fail)",
        "gil",
    ),
    label(
        "dataloader_shm", "initiating setting", "raise_limit",
        "A loader process died for lack of shared memory (/dev/shm): --shm-size or "
        "--ipc=host.",
        r"DataLoader worker..killed by signal: Bus error|"
        r"Unexpected bus error encountered in worker",
        "bus error",
    ),
    label(
        "dataloader_killed", "initiating memory", "raise_limit",
        "A loader process was killed, mostly for lack of the host's memory: fewer loader "
        "processes.",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]{1,200}\)..(?:killed by signal: (?:Killed|"
        r"Terminated|Aborted)|exited unexpectedly)|DataLoader worker..(?:is killed|"
        r"exited unexpectedly)|DataLoader..worker..died",
        "dataloader",
    ),
    label(
        "collective_mismatch", "initiating user_code", "fix_code",
        "Ranks entered one collective with different operations or sizes: a branch, or an "
        "input, that only some of them take.",
        r"Detected mismatch between collectives|mismatch..collective|"
        r"CollectiveFingerPrint..but Rank|[Dd]esync detected|Desynchronized|"
        r"collectives? (?:are|is) out of sync",
        "mismatch", "fingerprint", "desync", "out of sync", of_rank=False,
    ),
    label(
        "gloo_size_mismatch", "initiating user_code", "fix_code",
        "Ranks entered one collective with different sizes; the one with the smaller buffer "
        "died, which may be an innocent one.",
        r"EnforceNotMet|op\.preamble\.length|enforce fail at..gloo|gloo..(?:preamble|nbytes)",
        "enforcenotmet", "preamble", "gloo", of_rank=False,
    ),
    label(
        "monitored_barrier", "initiating timeout", "fix_code",
        "These ranks did not come to a barrier in time: look at what they did instead.",
        r"failed to pass monitoredBarrier|timed out in monitoredBarrier|"
        r"monitoredBarrier..(?:failed|timeout)",
        "monitoredbarrier", of_rank=False,
    ),
    label(
        "not_a_number", "initiating numerics", "fix_code",
        "The loss or gradients are not numbers: look at the steps before, the data and the "
        "scale.",
        r"found NaN in|(?:loss|grad\w*|norm|logits|weights|tensor|values?)\b.{0,60}\b(?:is|"
        r"are|was|became|contains?|has)\b.{0,20}\b(?:nan|inf(?:inite)?|non-?finite)\b|"
        r"NaN or Inf found|non-finite (?:loss|grad)|FloatingPointError|returned nan values|"
        r"(?:rerun_state_machine|nan)..(?:unexpected|persistent) result|"
        r"(?:Current loss scale already at minimum|loss scale at minimum)|"
        r"Minimum loss scale reached|probability tensor contains either|"
        r"Function '\w{1,60}' returned nan|Rank \d+: found NaN",
        "nan", "non-finite", "nonfinite", "infinite", "floatingpoint", "loss scale",
        "probability tensor", "inf ",
    ),
    label(
        "address_in_use", "initiating setting", "fix_setting",
        "The port is taken: a second job on this host, or one that did not end.",
        r"Address already in use|EADDRINUSE|\berrno: ?98\b|\[Errno 98\]",
        "address already in use", "eaddrinuse", "errno 98", "errno: 98",
    ),
    label(
        "rendezvous_failed", "initiating setting", "fix_setting",
        "Processes did not find each other: MASTER_ADDR, the port, a firewall, or a host "
        "that is missing.",
        r"RendezvousConnectionError|RendezvousTimeoutError|"
        r"connection to the C10d store has failed|client socket has (?:failed|timed out)|"
        r"TCP client failed to connect|Timed out after \d+ seconds waiting for clients|"
        r"Name or service not known|Temporary failure in name resolution|(?:rendezvous|"
        r"MASTER_ADDR|store)..Connection refused|Connection refused..(?:rendezvous|store|"
        r"29500)|host name..could not be resolved|nodename nor servname",
        "rendezvous", "c10d store", "client socket has", "tcp client failed",
        "waiting for clients", "name or service", "name resolution", "connection refused",
        "could not be resolved", "nodename nor", of_rank=False,
    ),
    label(
        "interface_loopback", "context setting", "fix_setting",
        "Ranks of several hosts talk over the loopback interface: set NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME.",
        r"NET/Socket : Using \[0\]lo:127|Bootstrap : Using (?:\[0\])?lo:127|"
        r"NET/Socket..Using..\blo:127|Gloo connectFullMesh failed..127\.0\.|"
        r"connected to..127\.0\.0\.1..peer",
        "lo:127", "127.0.",
    ),
    label(
        "acs_or_iommu", "context setting", "fix_setting",
        "Transfers between GPUs go through the root complex: switch off ACS on the bridges, "
        "and the IOMMU.",
        r"\bACS\b..(?:enabled|redirect|is on)|IOMMU..(?:enabled|may cause|hang)|"
        r"P2P is disabled..(?:ACS|IOMMU|topolog)|AMD-Vi: (?:Event|IO_PAGE_FAULT)|DMAR:..fault",
        "acs", "iommu", "p2p is disabled", "amd-vi", "dmar:",
    ),
    label(
        "invalid_nccl_usage", "initiating setting", "fix_setting",
        "NCCL was called wrongly: two ranks on one GPU, or settings that differ between "
        "ranks.",
        r"Duplicate GPU detected|ncclInvalidUsage|ncclInvalidArgument|invalid usage, NCCL",
        "duplicate gpu", "ncclinvalid", "invalid usage",
    ),
    label(
        "segfault", "initiating software", "fix_code",
        "Native code of the program or a library accessed memory that is not its own.",
        r"Segmentation fault|Signal(?:s\.)? ?(?:11|SIGSEGV)|\bSIGSEGV\b|segfault at [0-9a-f]|"
        r"general protection fault|double free or corruption|malloc\(\): |free\(\): invalid|"
        r"corrupted size vs\. prev_size|\*\*\* stack smashing|Bus error \(core dumped\)|"
        r"Fatal Python error: (?:Segmentation|Bus|Illegal)",
        "segmentation", "sigsegv", "signal 11", "segfault", "protection fault", "double free",
        "malloc(", "free():", "prev_size", "stack smashing", "bus error", "fatal python error",
    ),
    label(
        "hangup", "initiating launcher", "fix_setting",
        "The terminal from which the job was started was closed: start it under tmux, screen "
        "or a scheduler.",
        r"Signals\.SIGHUP|got signal: 1\b|\bSIGHUP\b|Hangup detected|Signal 1 \(",
        "sighup", "got signal: 1", "hangup", "signal 1 (", of_rank=False,
    ),
)  # fmt: skip

WEAK_LABELS = (
    label(
        "watchdog_timeout", "initiating timeout", "restart",
        "A collective did not complete in time: some rank did not enter it, or the network "
        "stood still.",
        r"Watchdog caught collective operation timeout|"
        r"ran for \d+ milliseconds before timing out|Timeout at NCCL work|"
        r"Timed out waiting \d+ms for (?:recv|send) operation|Wait timeout|"
        r"Operation timed out!|NCCL..timeout..collective|(?:collective|all_?reduce|"
        r"all_?gather|barrier|broadcast|reduce_?scatter)..timed out after|Socket Timeout|"
        r"wait timeout after \d+ms",
        "timeout", "timing out", "timed out", of_rank=False, is_weak=True,
    ),
    label(
        "heartbeat_timeout", "initiating timeout", "restart",
        "The watchdog of this rank itself stood still: a call of CUDA or NCCL that does not "
        "return, or Python's lock.",
        r"Heartbeat monitor timed out|watchdog got stuck for|no heartbeat of its watchdog",
        "heartbeat", "watchdog got stuck", is_weak=True,
    ),
    label(
        "killed", "initiating memory", "raise_limit",
        "SIGKILL without an earlier error is most often the out-of-memory killer: the kernel "
        "log of the host confirms it.",
        r"terminated with signal SIGKILL|got signal: 9\b|Signal 9 \(SIGKILL\)|"
        r"exitcode\s*:? ?-9\b|died with <Signals\.SIGKILL|returned non-zero exit status 137\b|"
        r"exit(?:ed with)? code 137\b|^\S{0,200}:? line \d+: +\d+ Killed|"
        r"srun: error:..task \d{1,6}: Killed",
        "sigkill", "signal: 9", "signal 9", "-9", "137", "killed", is_weak=True,
    ),
    label(
        "terminated", "initiating launcher", "restart",
        "The launcher was told to end by the scheduler, the cluster or a person.",
        r"Received Signals\.SIGTERM death signal|Received 15 death signal|"
        r"SignalException: Process \d+ got signal: 15|got signal: 15\b|Received SIGTERM|"
        r"caught signal 15|signal 15 received",
        "sigterm", "signal: 15", "signal 15", "received 15", of_rank=False, is_weak=True,
    ),
    label(
        "interrupted", "initiating launcher", "restart",
        "Somebody pressed Ctrl-C, or the job was ended with SIGINT.",
        r"KeyboardInterrupt|Signals\.SIGINT|got signal: 2\b",
        "keyboardinterrupt", "sigint", "got signal: 2", of_rank=False, is_weak=True,
    ),
)  # fmt: skip

ECHO_LABELS = (
    label(
        "barrier_peer", "cascade timeout", "",
        "Another rank is waited for in the barrier.",
        r"successfully reached monitoredBarrier",
        "monitoredbarrier",
    ),
    label(
        "comm_aborted", "cascade network", "",
        "The communicator was ended after an error elsewhere.",
        r"(?:NCCL )?communicator was aborted|Communicator..abort|comm..aborted|ncclCommAbort|"
        r"collectives? (?:has|have) been aborted|TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "abort", "async_error_handling",
    ),
    label(
        "remote_error", "cascade network", "",
        "A rank elsewhere ended, or the network to it.",
        r"remote process exited or there was a network error|ncclRemoteError|"
        r"A call failed possibly due to a network error",
        "remote process exited", "ncclremoteerror", "due to a network error",
    ),
    label(
        "peer_closed", "cascade network", "",
        "The other side of a connection went away.",
        r"Connection reset by peer|Connection closed by (?:remote )?peer|closed by peer|"
        r"Broken pipe|\[Errno (?:32|104)\]|Connection (?:was )?(?:aborted|closed)|"
        r"Software caused connection abort|remote peer..closed|recvfrom..failed|"
        r"Failed to recv, got 0 bytes|ConnectionResetError|BrokenPipeError|"
        r"EOFError..(?:multiprocessing|connection)|peer..(?:is )?dead",
        "by peer", "by remote peer", "broken pipe", "errno 32", "errno 104", "connection aborted",
        "connection was", "connection closed", "connection abort", "remote peer", "recvfrom",
        "failed to recv", "connectionreset", "brokenpipe", "eoferror", "dead",
    ),
    label(
        "store_lost", "cascade network", "",
        "The process that holds the store ended: rank 0's host, mostly.",
        r"TCPStore..(?:failed|timeout|timed out|closed|lost|recvValue|sendBytes|exited)|"
        r"recvValue failed|sendBytes failed|store..server..(?:exit|shut ?down|died)|"
        r'DistStoreError|Failed to check the \"?should dump\"? flag',
        "tcpstore", "recvvalue", "sendbytes", "store", "should dump",
    ),
    label(
        "unhandled_system_error", "cascade network", "",
        "NCCL passes on an error: the line of NCCL before it tells.",
        r"unhandled (?:system|cuda) error|ncclSystemError|ncclUnhandledCudaError|"
        r"ncclInternalError|internal error - please report|"
        r"System call \(e\.g\. socket, malloc\)",
        "unhandled", "ncclsystem", "ncclinternal", "internal error", "system call (e.g.",
    ),
    label(
        "peer_dump_signal", "cascade timeout", "",
        "Another rank timed out first and told this one.",
        r"Received a dump signal|dump signal from|Observed flight recorder dump signal|"
        r"global ?rank \d+..timed? ?out..(?:first|signal)",
        "dump signal", "signal",
    ),
    label(
        "watchdog_ends", "cascade timeout", "",
        "The watchdog ends the process after a timeout or an error.",
        r"Some NCCL operations have failed or timed out|taking the entire process down|"
        r"watchdog thread (?:terminated|exit)|"
        r"Exception \(either an error or timeout\) detected by watchdog|"
        r"To avoid data inconsistency|failure detected by watchdog at work|"
        r"preparing to dump debug info|Terminating the process after attempting to dump",
        "nccl operations have failed", "process down", "watchdog", "data inconsistency",
        "dump debug info", "terminating the process",
    ),
    label(
        "nccl_error", "cascade network", "",
        "NCCL passes on an error; which, its own lines tell.",
        r"DistBackendError|DistNetworkError|NCCL error|NCCL WARN..(?:failed|error|retcode)",
        "distbackend", "distnetwork", "nccl error", "nccl warn",
    ),
    label(
        "process_failed_box", "teardown launcher", "",
        "The launcher lists which processes ended first; that is often a victim.",
        r"Root Cause \(first observed failure\)|ChildFailedError|ProcessRaisedException|"
        r"ProcessExitedException|failed \(exitcode: -?\d+\) local_rank|exits with return code|"
        r"CalledProcessError|srun: error:..(?:Exited with exit code|Terminated|task)",
        "root cause", "childfailed", "processraised", "processexited", "failed (exitcode",
        "return code", "calledprocess", "srun: error",
    ),
    label(
        "closing_workers", "teardown launcher", "",
        "The launcher ends the other processes.",
        r"Sending process \d+ closing signal|closing signal SIGTERM|Killing subprocess|"
        r"Job step aborted|Waiting up to \d+ seconds for job step|forcing job termination|"
        r"Unable to shutdown process|Signal 15 \(SIGTERM\) received by PID|"
        r"died with <Signals\.SIGTERM",
        "closing signal", "killing subprocess", "step aborted", "job step", "forcing job",
        "unable to shutdown", "signal 15", "sigterm",
    ),
    label(
        "aborted", "teardown launcher", "",
        "The process ended itself after an error, which stands before.",
        r"terminate called|what\(\):|Aborted \(core dumped\)|Fatal Python error: Aborted|"
        r"Signal 6 \(SIGABRT\)|died with <Signals\.SIGABRT|exitcode *: -6\b",
        "terminate called", "what():", "core dumped", "fatal python error", "sigabrt", "exitcode",
    ),
    label(
        "restarting", "context launcher", "",
        "The launcher starts the job again.",
        r"Worker group..(?:restart|FAILED)..\d+/\d+ attempts left|Restarting worker group|"
        r"will restart worker group|Requeue|Starting elastic_operator|"
        r"starting workers for entrypoint",
        "worker group", "requeue", "elastic_operator", "starting workers",
    ),
)  # fmt: skip

CONTEXT_LABELS = (
    label(
        "saving", "context storage", "",
        "It writes a checkpoint.",
        r"\b(?:saving|writing|exporting|uploading|consolidating) (?:\w+ ){0,4}(?:checkpoint|"
        r"model|weights|optimizer|state|safetensors)",
        "saving", "writing", "exporting", "uploading", "consolidating",
    ),
    label(
        "evaluating", "context user_code", "",
        "It evaluates the model.",
        r"\*{3,5} Running (?:Evaluation|Prediction)|\b(?:running|starting|"
        r"begin\w*) (?:\w+ ){0,3}(?:validation|evaluation|eval)\b|\b(?:evaluating|"
        r"validating)\b(?! the (?:installation|environment))",
        "evaluat", "validat", "validation", "prediction", "eval",
    ),
    label(
        "preparing_data", "context data", "",
        "It prepares the data.",
        r"\b(?:tokeniz|preprocess|pre-process|packing|filtering|building|indexing|"
        r"shuffling)\w*\b.{0,60}(?:dataset|data|samples|examples|corpus|index|split)|"
        r"Map(?: \(num_proc=\d+\))?:\s+\d+%|Running tokenizer on|Generating \w+ split",
        "tokeniz", "preprocess", "pre-process", "packing", "filtering", "building", "indexing",
        "shuffling", "map", "generating",
    ),
    label(
        "progress", "context user_code", "",
        "A progress bar.",
        r"\d+%\|.{0,200}\| *[\d.,]+\w?/[\d.,]+",
        "%|",
    ),
)  # fmt: skip
