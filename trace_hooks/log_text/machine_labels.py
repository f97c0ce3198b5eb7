"""What kernels and schedulers write of hardware, memory and the end of jobs.

Source: formats of the Linux kernel, NVIDIA's and AMD's drivers, Slurm and Kubernetes.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label
from trace_hooks.log_text.xids import xid_labels

HARDWARE_LABELS = (
    *xid_labels(),
    label(
        "gpu_off_the_bus", "initiating hardware", "cordon_node",
        "The GPU no longer answers on the PCI bus: reboot the node.",
        r"fallen off the bus|GPU is lost|Unable to determine the device handle for GPU|"
        r"amdgpu..device lost from bus",
        "off the bus", "gpu is lost", "determine the device handle", "lost from bus",
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
        r"uncorrectable ECC|double.bit ECC|ECC error..uncorrect|"
        r"hipErrorECCNotCorrectable|amdgpu..uncorrectable hardware errors? detected",
        "ecc", "amdgpu",
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
        "amd_gpu_reset", "initiating hardware", "reset_gpu",
        "The driver of the AMD GPU had to reset it.",
        r"amdgpu..(?:GPU reset begin|ring \S{1,40} timeout|GPU reset\(\d+\) (?:failed|succeeded)|"
        r"RAS..(?:fatal|poison))|HW Exception by GPU node",
        "amdgpu", "hw exception by gpu",
    ),
    label(
        "pcie_corrected", "context hardware", "",
        "An error on the PCI bus that the hardware corrected.",
        r"PCIe Bus Error: severity=Corrected|AER: (?:Multiple )?Corrected error",
        "severity=corrected", "aer:",
    ),
)  # fmt: skip

SCHEDULER_LABELS = (
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
        r"step) memory limit)|srun: error:..Out Of Memory|OUT_OF_MEMORY(?![\w+])",
        "oom_kill", "oom-kill", "memory limit", "out of memory", "out_of_memory", of_rank=False,
    ),
    label(
        "job_memory_limit", "initiating memory", "raise_limit",
        "The job used more memory of the host than it had asked its scheduler for.",
        r"TERM_MEMLIMIT|after reaching LSF memory usage limit|PBS: job killed: [pv]{0,2}mem\b",
        "memlimit", "memory usage limit", "job killed", of_rank=False,
    ),
    label(
        "k8s_oom", "initiating memory", "raise_limit",
        "The container, or its worker, used more memory than its limit.",
        r"\bOOMKill(?:ed|ing)\b|reason: OOMKilled|killed due to the node running low on memory|"
        r"[Ww]orkers? .{0,80}killed due to memory pressure|exceeded the memory usage threshold",
        "oomkill", "running low on memory", "memory pressure", "memory usage threshold",
        of_rank=False,
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
        r"DUE TO TIME LIMIT|DeadlineExceeded|job..exceeded..walltime|TERM_RUNLIMIT|"
        r"after reaching LSF run time limit|job killed: walltime",
        "time limit", "deadlineexceeded", "walltime", "term_runlimit", of_rank=False,
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
        r"slurmstepd: error: \*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,80} CANCELLED AT|"
        r"\bscancel(?:led|ed)\b|Job..has been cancelled|TERM_(?:FORCE_)?OWNER\b|"
        r"job killed by owner",
        "cancelled", "scancel", "term_", "by owner", of_rank=False, is_weak=True,
    ),
    label(
        "step_refused", "initiating setting", "fix_setting",
        "Slurm cannot start the step: it asks for more than the job was given.",
        r"Unable to create step for job..(?:More processors requested|Memory required|"
        r"Requested node configuration|Invalid generic resource|Invalid Trackable)",
        "unable to create step", of_rank=False,
    ),
    label(
        "container_refused", "initiating setting", "fix_setting",
        "The container of the job did not start: the lines of its runtime tell why.",
        r"nvidia-container-cli: .{0,40}error|pyxis: (?:container start failed|couldn't start)|"
        r"pyxis: failed to (?:import|create|start)|OCI runtime (?:create|exec) failed|"
        r"Failed to invoke spank plugin stack|ErrImagePull|ImagePullBackOff",
        "container-cli", "pyxis", "oci runtime", "spank plugin", "errimagepull", "imagepullback",
        of_rank=False,
    ),
)  # fmt: skip
