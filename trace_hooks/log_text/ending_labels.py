"""What is written when a job ends: weak signs of a cause, and echoes of a failure elsewhere.

Source: texts of torch (c10d, elastic), NCCL, gloo, DeepSpeed, Lightning, Slurm and MPI.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

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
        r"exit(?:ed with)?(?: exit)? code:? (?:137|9)\b|line \d+: +\d+ Killed\b|"
        r"srun: error:..tasks? [\d,-]{1,200}: Killed|return code = -9\b|"
        r"terminated with code -9\b|exited on signal 9\b|exit(?:ed with)? code -9\b",
        "sigkill", "signal: 9", "signal 9", "-9", "137", "code 9", "code: 9", "killed",
        is_weak=True,
    ),
    label(
        "bus_error", "initiating setting", "raise_limit",
        "A process touched memory that is not there, mostly because shared memory (/dev/shm) is "
        "full: --shm-size or --ipc=host.",
        r"Caught signal 7\b|Signal 7 \(SIGBUS\)|exitcode\s*:? ?-7\b|return code = -7\b|"
        r"\bBus error\b|Fatal Python error: Bus|\bSIGBUS\b|exit(?:ed with)? code (?:135|-7)\b",
        "signal 7", "-7", "bus error", "sigbus", "code 135", is_weak=True,
    ),
    label(
        "gloo_loopback", "initiating setting", "fix_setting",
        "A rank looks for another one at its own loopback address: set GLOO_SOCKET_IFNAME, and let "
        "the name of the host resolve to its address.",
        r"connect \[127\.[\d.]{5,11}\]:\d+: Connection refused|connectFullMesh failed..\[127\.",
        "127.", is_weak=True,
    ),
    label(
        "terminated", "initiating launcher", "restart",
        "The scheduler, the cluster or a person ended the launcher.",
        r"Received Signals\.SIGTERM death signal|Received 15 death signal|"
        r"Received SIGTERM: 15|"
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
        r"collectives? (?:has|have) been aborted",
        "abort",
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
        r"connect to..(?:failed|returned)..Connection refused|ConnectionRefusedError|"
        r"[Ss]ocket recv failed while polling|"
        r"EOFError..(?:multiprocessing|connection)|peer..(?:is )?dead",
        "by peer", "by remote peer", "connection refused", "connectionrefused", "recv failed",
        "broken pipe", "errno 32", "errno 104", "connection aborted", "connection was",
        "connection closed", "connection abort", "remote peer", "recvfrom", "failed to recv",
        "connectionreset", "brokenpipe", "eoferror", "dead",
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
        r"CalledProcessError|srun: error:..(?:Exited with exit code|Terminated|task)|"
        r"mpirun detected that one or more processes|(?:mpirun|prterun) noticed that process|"
        r"process \d{1,5} terminated with exit code|Process name: \[\[|"
        r"Child process with PID \d+ terminated with code|\brank \d+ (?:\(PID \d+\) exited with"
        r"|crashed with exit) code",
        "root cause", "childfailed", "processraised", "processexited", "failed (exitcode",
        "return code", "calledprocess", "srun: error", "mpirun", "prterun", "process name",
        "terminated with exit",
        "child process", "exited with code", "crashed with exit",
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
        r"terminate called|^\s*what\(\):|Aborted \(core dumped\)|Fatal Python error: Aborted|"
        r"Signal 6 \(SIGABRT\)|died with <Signals\.SIGABRT|exitcode *: -6\b|"
        r"terminated with signal SIGABRT",
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
    label(
        "driver_shutting_down", "cascade software", "",
        "The process was ending already.",
        r"driver shutting down|cudaErrorCudartUnloading|context is destroyed|"
        r"cannot schedule new futures after|interpreter shutdown|"
        r"The above exception was raised while shutting down",
        "shutting down", "cudartunloading", "context is destroyed", "new futures after",
        "interpreter shutdown",
    ),
    label(
        "dataloader_ended", "cascade launcher", "",
        "A loader process was ended together with its job.",
        r"DataLoader worker..killed by signal: (?:Terminated|Interrupt|Hangup)",
        "dataloader",
    ),
    label(
        "actor_died", "cascade software", "",
        "A worker of Ray ended; its own log says why.",
        r"The actor died|ActorDiedError|RayActorError|A worker died or was killed|"
        r"WorkerCrashedError|Worker unexpectedly exits|ActorUnavailableError|"
        r"OwnerDiedError|Engine core proc \S{1,40} died|EngineDeadError|"
        r"died unexpectedly",
        "actor died", "actordied", "rayactor", "worker died", "workercrashed",
        "unexpectedly exits", "actorunavailable", "ownerdied", "engine core proc", "enginedead",
        "died unexpectedly",
    ),
    label(
        "heartbeat_lost", "cascade network", "",
        "A node of the job no longer answers its launcher.",
        r"has failed to send a keep-alive heartbeat|"
        r"node has been marked dead|missed too many heartbeats",
        "keep-alive heartbeat", "marked dead", "too many heartbeats",
    ),
    label(
        "socket_retry", "context network", "",
        "A socket that is tried again or in another way.",
        r"errno: (?:97|99)\b|Address family not supported|Cannot assign requested address|"
        r"[Cc]onnection refused..retrying|retrying..[Cc]onnection refused",
        "errno: 9", "address family", "cannot assign requested", "retrying",
    ),
)  # fmt: skip
