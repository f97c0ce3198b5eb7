"""What kernels, schedulers, networks and disks write: lines that no program of the user raises.

Source: formats of the Linux kernel, NVIDIA's driver, Slurm, Kubernetes and NCCL.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label
from trace_hooks.log_text.xids import xid_labels

HARDWARE_LABELS = (
    *xid_labels(),
    label(
        "gpu_off_the_bus", "initiating hardware", "cordon_node",
        "The GPU no longer answers on the PCI bus: reboot the node.",
        r"fallen off the bus|GPU is lost|Unable to determine the device handle for GPU",
        "off the bus", "gpu is lost", "determine the device handle",
    ),
    label(
        "nvswitch_error", "initiating hardware", "cordon_node",
        "A switch between the GPUs of this node reports an error.",
        r"nvswitch\d*..SXid|\bSXid\b..\d",
        "sxid",
    ),
    label(
        "ecc_error", "initiating hardware", "cordon_node",
        "Memory of the GPU is damaged: the same node fails again.",
        r"uncorrectable ECC|double.bit ECC|ECC error..uncorrect",
        "ecc",
    ),
    label(
        "cuda_ecc_error", "initiating hardware", "cordon_node",
        "Memory of the GPU is damaged: the same node fails again.",
        r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        "eccuncorrect", "ecc_uncorrect",
    ),
    label(
        "nvlink_error", "initiating hardware", "cordon_node",
        "An NVLink of this node has errors.",
        r"CUDA error: uncorrectable NVLink|NVLink..(?:fatal|uncorrectable|link down|is down)|"
        r"NVLinkError|cudaErrorNvlink",
        "nvlink",
    ),
    label(
        "machine_check", "initiating hardware", "cordon_node",
        "The processor or the memory of the host reports an error.",
        r"mce: \[Hardware Error\]|Machine check events? logged|EDAC..\bUE\b|"
        r"Uncorrected..memory error",
        "mce:", "machine check", "edac", "uncorrected",
    ),
    label(
        "pcie_fatal", "initiating hardware", "cordon_node",
        "A device of the host failed on the PCI bus.",
        r"PCIe Bus Error: severity=Uncorrect|AER:..Uncorrected \(Fatal\)",
        "pcie bus error", "aer:",
    ),
    label(
        "kernel_oom_cgroup", "initiating memory", "raise_limit",
        "The processes of the container or job step used more memory than its limit.",
        r"Memory cgroup out of memory: Kill|oom-kill:constraint=CONSTRAINT_MEMCG",
        "cgroup out of memory", "constraint_memcg",
    ),
    label(
        "kernel_oom", "initiating memory", "raise_limit",
        "The host had no memory left: fewer loader processes, smaller caches, or more memory.",
        r"Out of memory: Kill(?:ed)? process|invoked oom-killer|oom-kill:constraint|"
        r"oom_reaper:",
        "out of memory: kill", "oom-killer", "oom-kill:", "oom_reaper",
    ),
    label(
        "slurm_oom", "initiating memory", "raise_limit",
        "The job step used more memory of the host than Slurm gave it.",
        r"slurmstepd..(?:Detected \d+ oom[_-]kill|oom[_-]kill event|exceeded (?:job|"
        r"step) memory limit)|srun: error:..Out Of Memory",
        "oom_kill", "oom-kill", "memory limit", "out of memory", of_rank=False,
    ),
    label(
        "k8s_oom", "initiating memory", "raise_limit",
        "The container used more memory than its limit.",
        r"\bOOMKill(?:ed|ing)\b|reason: OOMKilled",
        "oomkill", of_rank=False,
    ),
    label(
        "k8s_evicted", "initiating preemption", "restart",
        "Kubernetes took the pod off its node.",
        r"\bEvicted\b..(?:pod|node|low on)|(?:pod|reason)..\bEvicted\b|"
        r"The node was low on resource|\bPreempted\b by|Preempting..pod|TaintManagerEviction",
        "evict", "low on resource", "preempt", of_rank=False,
    ),
    label(
        "k8s_node_lost", "initiating hardware", "cordon_node",
        "Kubernetes lost the node.",
        r"NodeNotReady|NodeLost|node is not ready..deleting|"
        r"Node .{1,80} status is now: NodeNotReady",
        "nodenotready", "nodelost", "node is not ready", of_rank=False,
    ),
    label(
        "time_limit", "initiating preemption", "raise_limit",
        "The scheduler ended the job at its time limit.",
        r"DUE TO TIME LIMIT|DeadlineExceeded|job..exceeded..walltime",
        "time limit", "deadlineexceeded", "walltime", of_rank=False,
    ),
    label(
        "preempted", "initiating preemption", "restart",
        "The scheduler took the nodes for another job.",
        r"DUE TO PREEMPTION|\bspot\b..(?:interruption|termination|reclaim)|"
        r"instance..will be (?:preempted|terminated)|preemption notice",
        "preempt", "spot", "will be terminated", of_rank=False,
    ),
    label(
        "node_failure", "initiating hardware", "cordon_node",
        "The scheduler lost a node of the job.",
        r"DUE TO NODE FAILURE|srun: error: Node failure on|\bNODE_FAIL\b|"
        r"not responding, setting DOWN|\*\*\* NODE FAIL",
        "node fail", "node_fail", "setting down", of_rank=False,
    ),
    label(
        "job_cancelled", "initiating preemption", "restart",
        "Somebody or the scheduler cancelled the job.",
        r"slurmstepd: error: \*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,80} CANCELLED AT|scancel|"
        r"Job..has been cancelled",
        "cancelled", "scancel", of_rank=False, is_weak=True,
    ),
)  # fmt: skip

NETWORK_LABELS = (
    label(
        "ib_completion_error", "initiating network", "cordon_node",
        "A transfer between two hosts failed for good: a link, cable, card or switch between "
        "them.",
        r"NET/IB\w?\s?:..Got completion (?:from peer|with)|ibv_poll_cq..(?:fail|error)|"
        r"Work Completion Error|IBV_WC_\w*(?:ERR|EXC)",
        "got completion", "ibv_poll_cq", "completion error", "ibv_wc_",
    ),
    label(
        "efa_error", "initiating network", "cordon_node",
        "A transfer of the AWS fabric failed: the peer or the path to it.",
        r"NET/OFI..(?:Request..completed with error|failed|error)|"
        r"\bRC: -?\d+\. Error: .{0,80}(?:receiver not ready|unresponsive|Unreachable)",
        "net/ofi", "unresponsive",
    ),
    label(
        "port_down", "initiating network", "cordon_node",
        "A network port of this host went down.",
        r"async (?:fatal )?event: (?:local )?(?:port error|LOCAL..catas|QP..fatal|"
        r"device fatal)|Got (?:async )?(?:fatal )?event..port error|mlx\d_core..(?:Link down|"
        r"Port: \d+ Link DOWN|health compromised|fatal)|\b(?:ib|eth|en|rdma|"
        r"bond)\w{1,16}: (?:NIC )?Link (?:is )?Down|port \d+..state..DOWN",
        "port error", "link down", "link is down", "device fatal", "catas", "health compromised",
        "fatal", "down",
    ),
    label(
        "gid_table_changed", "context network", "fix_setting",
        "The address of the RoCE card changed while the job ran: fix the index or the "
        "address.",
        r"GID table (?:changed|change)|async event: GID",
        "gid",
    ),
    label(
        "qp_timeout", "initiating network", "fix_setting",
        "The cards of two hosts cannot reach each other: often the wrong GID index "
        "(NCCL_IB_GID_INDEX), a link-local address, or a path that is not routed.",
        r"ibv_modify_qp failed|Call to ibv_modify_qp..(?:Connection timed out|failed)|"
        r"ibv_create_(?:qp|cq) failed",
        "ibv_modify_qp", "ibv_create",
    ),
    label(
        "memlock_limit", "initiating setting", "raise_limit",
        "The limit of locked memory (memlock) is too low for RDMA; the host has memory.",
        r"ibv_reg_(?:dmabuf_)?mr\w*..(?:failed|Cannot allocate memory)|locked memory limit|"
        r"RLIMIT_MEMLOCK|fi_mr_reg..failed",
        "ibv_reg", "memlock", "locked memory", "fi_mr_reg",
    ),
    label(
        "version_mismatch", "initiating setting", "fix_setting",
        "Ranks run different versions of NCCL: install the same one on every node.",
        r"connecting to address..with family 0|Mismatched NCCL version|"
        r"NCCL version..(?:mismatch|differ)|Bootstrap..version mismatch|"
        r"Version mismatch..NCCL|incompatible NCCL version",
        "family 0", "mismatch", "differ", "incompatible",
    ),
    label(
        "no_route", "initiating network", "fix_setting",
        "A host cannot be reached: the interface, a firewall or the routing.",
        r"No route to host|Network is unreachable|socketStartConnect: Connect to..failed|"
        r"connect to..failed : (?:Software caused|No route|Connection timed out)|"
        r"Net : Connect to..failed|socket connect..(?:failed|timed out)..Connection timed out",
        "no route to host", "network is unreachable", "connect",
    ),
    label(
        "no_interface", "initiating setting", "fix_setting",
        "The named network interface does not exist on this host (NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME).",
        r"Bootstrap : no socket interface found|no socket interface found|"
        r"Unable to find (?:address|interface) for|Could not find..interface..SOCKET_IFNAME",
        "interface", "unable to find address",
    ),
    label(
        "link_flapped", "context network", "",
        "The network of this host went away and came back.",
        r"Link (?:is )?up|port active|async event: port active",
        "link up", "link is up", "port active",
    ),
)  # fmt: skip

STORAGE_LABELS = (
    label(
        "shm_full", "initiating setting", "raise_limit",
        "Shared memory (/dev/shm) is too small, not the disk: --shm-size or --ipc=host for "
        "containers, a larger emptyDir of medium Memory for pods.",
        r"/dev/shm..No space left|No space left..(?:/dev/shm|shared memory)|"
        r"creating shared memory segment|posix_fallocate failed|unable to (?:open|"
        r"allocate) shared memory|out of shared memory|raise your shared memory limit|"
        r"shm_open..(?:failed|No space)|Error while..shared memory segment",
        "/dev/shm", "shared memory", "posix_fallocate", "shm_open",
    ),
    label(
        "disk_full", "initiating storage", "raise_limit",
        "The disk or quota is full: free space, or write elsewhere.",
        r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]|\bENOSPC\b|"
        r"file system is full|os error 28\b",
        "no space left", "quota exceeded", "errno 28", "errno 122", "enospc", "system is full",
        "os error 28",
    ),
    label(
        "file_limit", "initiating setting", "raise_limit",
        "The limit of open files is too low (ulimit -n), or file descriptors are leaked.",
        r"Too many open files|\[Errno 24\]|received 0 items of ancdata|\bEMFILE\b|\[Errno 23\]",
        "too many open files", "errno 24", "errno 23", "ancdata", "emfile",
    ),
    label(
        "stale_file_handle", "initiating storage", "restart",
        "A file of the network file system was replaced or its export restarted: remount it.",
        r"Stale (?:NFS )?file handle|\[Errno 116\]|\bESTALE\b",
        "stale", "errno 116",
    ),
    label(
        "storage_error", "initiating storage", "cordon_node",
        "A disk or file system of this host fails.",
        r"\[Errno 5\] Input/output error|Input/output error|blk_update_request: I/O error|"
        r"I/O error, dev|EXT4-fs error|XFS \([\w-]{1,40}\):..(?:error|shutdown|Corruption)|"
        r"nvme\w*: (?:I/O \d+ QID|controller is down|Device not ready)|remount(?:ing|"
        r"ed) (?:filesystem )?read-only|\[Errno 30\]|Read-only file system|"
        r"Transport endpoint is not connected|\[Errno 107\]..endpoint|LustreError:",
        "input/output error", "i/o error", "i/o ", "ext4-fs", "xfs", "nvme", "read-only",
        "errno 30", "endpoint is not", "lustreerror",
    ),
    label(
        "storage_slow", "initiating storage", "restart",
        "The server of the network file system does not answer.",
        r"nfs: server..not responding|ceph:..(?:hung|session lost)|"
        r"task \S{1,60} blocked for more than \d+ seconds|Lustre:..(?:Connection..was lost|"
        r"timed out)|GPFS..unmount|\[Errno 110\]..Connection timed out: '/",
        "not responding", "session lost", "blocked for more", "lustre", "gpfs", "errno 110",
        "hung", is_weak=True,
    ),
    label(
        "object_store_error", "initiating storage", "restart",
        "The object store refused or lost a request: credentials, rate limit or network.",
        r"(?:botocore|s3fs|google\.api_core|azure\.core|aiobotocore)\.exceptions\.\w+|"
        r"\bSlowDown\b|NoCredentialsError|ExpiredToken|AccessDenied..(?:S3|bucket|operation)|"
        r"An error occurred \(\w{1,60}\) when calling",
        "botocore", "s3fs", "api_core", "azure.core", "slowdown", "nocredentials", "expiredtoken",
        "accessdenied", "an error occurred (",
    ),
    label(
        "checkpoint_corrupt", "initiating storage", "restart",
        "A file of weights is cut off or damaged: go back to the checkpoint before it.",
        r"SafetensorError|MetadataIncompleteBuffer|Error while deserializing header|"
        r"PytorchStream(?:Reader|Writer) failed|failed finding central directory|"
        r"invalid header or archive is corrupted|checkpoint..(?:corrupt|truncated)|"
        r"UnpicklingError|unexpected EOF..(?:bytes|file)|Ran out of input|BadZipFile|"
        r"CheckpointException",
        "safetensor", "incompletebuffer", "deserializing header", "pytorchstream",
        "central directory", "archive is corrupted", "corrupt", "truncated", "unpickling",
        "unexpected eof", "ran out of input", "badzipfile", "checkpointexception",
    ),
    label(
        "permission_denied", "initiating storage", "fix_setting",
        "The program may not read or write this file.",
        r"PermissionError: \[Errno 13\]|PermissionError: \[Errno 1\]",
        "permissionerror",
    ),
)  # fmt: skip
