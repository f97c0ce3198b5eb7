"""What file systems, disks, object stores and shared memory write.

Source: messages of the C library, the Linux kernel, safetensors and torch's file formats.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

STORAGE_LABELS = (
    label(
        "shm_full", "initiating setting", "raise_limit",
        "Shared memory (/dev/shm) is too small, not the disk: --shm-size or --ipc=host for "
        "containers, a larger emptyDir of medium Memory for pods.",
        r"/dev/shm..No space left|No space left..(?:/dev/shm|shared memory)|"
        r"creating shared memory segment|posix_fallocate failed|unable to (?:open|allocate|"
        r"write to|mmap)..shared memory|out of shared memory|raise your shared memory limit|"
        r"shm_open..(?:failed|No space)|Error while..shared memory segment|"
        r"failed to extend /dev/shm|torch_\d+_\d+_\d+>?..No space left",
        "/dev/shm", "shared memory", "posix_fallocate", "shm_open", "no space left",
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
        "write_failed", "initiating storage", "raise_limit",
        "A file of weights could not be written, mostly for lack of space or quota.",
        r"PytorchStreamWriter failed|unexpected pos \d+ vs \d+|file write failed|"
        r"I/O error: No space|Unable to (?:synchronously )?(?:write|flush)..(?:file|dataset)",
        "pytorchstreamwriter", "unexpected pos", "file write failed", "no space",
        "unable to",
    ),
    label(
        "checkpoint_corrupt", "initiating storage", "restart",
        "A file of weights is cut off or damaged: go back to the checkpoint before it.",
        r"SafetensorError|MetadataIncompleteBuffer|Error while deserializing header|"
        r"PytorchStreamReader failed|failed finding central directory|"
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
