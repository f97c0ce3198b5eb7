"""What the training program and its libraries write: loaders, collectives, settings, numbers.

Source: texts of torch (c10d, data loader), gloo, Megatron, Ray and the Python runtime.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

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
        "dataloader_crashed", "initiating software", "fix_code",
        "A loader process crashed in native code: look at what decodes the samples.",
        r"DataLoader worker..killed by signal: (?:Segmentation fault|Illegal instruction|"
        r"Floating point exception|Aborted)",
        "dataloader",
    ),
    label(
        "dataloader_killed", "initiating memory", "raise_limit",
        "A loader process was killed, mostly for lack of the host's memory: fewer loader "
        "processes.",
        r"DataLoader worker..(?:is killed|exited unexpectedly)|DataLoader..worker..died|"
        r"One of the subprocesses has abruptly died during map|"
        r"A process in the process pool was terminated abruptly|BrokenProcessPool",
        "dataloader", "abruptly", "brokenprocesspool",
    ),
    label(
        "collective_mismatch", "initiating user_code", "fix_code",
        "Ranks entered one collective with different operations or sizes: a branch, or an "
        "input, that only some of them take.",
        r"Detected mismatch between collectives|mismatch..collective|"
        r"CollectiveFingerPrint..but Rank|Desync detected|Desynchronized|"
        r"collectives? (?:are|is) out of sync|Mismatch in.{0,40}collective",
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
        r"(?:unexpected|persistent) result (?:nan|-?inf)|loss is (?:nan|inf), stopping|"
        r"NaN (?:loss|gradients?) (?:detected|encountered|found)|"
        r"(?:Current loss scale already at minimum|loss scale at minimum)|"
        r"Minimum loss scale reached|probability tensor contains either|"
        r"Function '\w{1,60}' returned nan|Rank \d+: found NaN",
        "nan", "non-finite", "nonfinite", "infinite", "floatingpoint", "loss scale",
        "probability tensor", "inf ", "result", "inf.", "infinity",
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
        "that is missing; in a restart by torchrun with gloo also an address that the attempt "
        "before left in its store, which one more restart (--max-restarts) may get past.",
        r"RendezvousConnectionError|RendezvousTimeoutError|RendezvousClosedError|"
        r"connectFullMesh failed|"
        r"connection to the C10d store has failed|client socket has (?:failed|timed out)|"
        r"TCP client failed to connect|Timed out after \d+ seconds waiting for clients|"
        r"Name or service not known|Temporary failure in name resolution|(?:rendezvous|"
        r"MASTER_ADDR|store)..Connection refused|Connection refused..(?:rendezvous|store|"
        r"29500)|host name..could not be resolved|nodename nor servname",
        "rendezvous", "c10d store", "client socket has", "tcp client failed", "connectfullmesh",
        "waiting for clients", "name or service", "name resolution", "connection refused",
        "could not be resolved", "nodename nor", of_rank=False,
    ),
    label(
        "interface_loopback", "context setting", "fix_setting",
        "Ranks of several hosts talk over the loopback interface: set NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME.",
        r"NET/Socket : Using \[0\]lo:127|Bootstrap : Using (?:\[0\])?lo:127|"
        r"NET/Socket..Using..\blo:127|Gloo connectFullMesh failed..127\.0\.|"
        r"connected to..127\.0\.0\.1..peer|(?:NCCL|GLOO)_SOCKET_IFNAME set by environment to lo\b",
        "lo:127", "127.0.", "socket_ifname",
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
        r"Duplicate GPU detected|ncclInvalidUsage|ncclInvalidArgument|invalid usage, NCCL|"
        r"invalid argument, NCCL",
        "duplicate gpu", "ncclinvalid", "invalid usage", "invalid argument, nccl",
    ),
    label(
        "library_missing", "initiating software", "fix_setting",
        "A library of this environment is missing or of another version: make the environments of "
        "all nodes equal.",
        r"cannot open shared object file|undefined symbol|version `\w{1,40}[\d._]*' not found|"
        r"DLL load failed|incompatible with this version|numpy\.dtype size changed",
        "shared object", "undefined symbol", "' not found", "dll load", "incompatible with",
        "dtype size changed",
    ),
    label(
        "module_missing", "initiating software", "fix_setting",
        "A module is not installed where this rank runs: install it; if only some ranks miss it, "
        "the environments of their nodes differ.",
        r"ModuleNotFoundError: No module named|ImportError: (?:cannot import name|No module named)",
        "no module named", "cannot import name",
    ),
    label(
        "download_failed", "initiating network", "fix_setting",
        "A model or data set could not be fetched: credentials, a proxy, or no connection from "
        "this host; fetch it beforehand.",
        r"huggingface_hub\.\w{0,20}\.?\w{0,20}errors?\.\w+|(?:GatedRepo|RepositoryNotFound|"
        r"LocalEntryNotFound|OfflineModeIsEnabled|HfHubHTTP)Error|"
        r"We couldn't connect to 'https?://huggingface|HTTPSConnectionPool..Max retries exceeded",
        "huggingface", "gatedrepo", "repositorynotfound", "localentrynotfound", "offlinemode",
        "hfhubhttp", "max retries",
    ),
    label(
        "http_error", "initiating data", "fix_setting",
        "A server refused a request or had no answer: credentials, its limit of requests, or its "
        "own failure; fetch beforehand what the job needs.",
        r"HTTPError: [45]\d\d (?:Client|Server) Error",
        "httperror: ",
    ),
    label(
        "process_limit", "initiating setting", "raise_limit",
        "The limit of processes or threads of this host or container is reached (ulimit -u, the "
        "cgroup's pids.max).",
        r"can't start new thread|pthread_create failed|Resource temporarily unavailable..(?:fork|"
        r"thread)|(?:fork|thread)..Resource temporarily unavailable|"
        r"(?:RuntimeError|what\(\)): +Resource temporarily unavailable",
        "start new thread", "pthread_create", "resource temporarily",
    ),
    label(
        "segfault", "initiating software", "fix_code",
        "Native code of the program or a library accessed memory that is not its own.",
        r"Segmentation fault|Signal(?:s\.)? ?(?:11|SIGSEGV)\b|\bSIGSEGV\b|"
        r"(?:python|pt_|torch|ray|VLLM|train)[\w.:-]*\[\d+\]:? segfault at [0-9a-f]|"
        r"exitcode\s*:? ?-11\b|return code = -11\b|terminated with code -11\b|"
        r"exit(?:ed with)?(?: exit)? code (?:139|-?11)\b|"
        r"general protection fault|double free or corruption|malloc\(\): |free\(\): invalid|"
        r"corrupted size vs\. prev_size|\*\*\* stack smashing|Illegal instruction \(core|"
        r"Fatal Python error: (?:Segmentation|Illegal)|Caught signal (?:11|4)\b",
        "segmentation", "sigsegv", "signal 11", "signal 4", "segfault", "protection fault",
        "double free", "malloc(", "free():", "prev_size", "stack smashing", "illegal instruction",
        "fatal python error", "-11", "code 139", "code 11",
    ),
    label(
        "hangup", "initiating launcher", "fix_setting",
        "The terminal from which the job was started was closed: start it under tmux, screen "
        "or a scheduler.",
        r"Signals\.SIGHUP|got signal: 1\b|\bSIGHUP\b|Hangup detected|Signal 1 \(|"
        r"Received 1 death signal",
        "sighup", "got signal: 1", "hangup", "signal 1 (", "1 death signal", of_rank=False,
    ),
)  # fmt: skip
