"""What NCCL, network cards and the sockets of a job write of the network between hosts.

Source: formats of NCCL, aws-ofi-nccl, libfabric and the Linux kernel.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

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
        r"NET/OFI..(?:Request..completed with error|failed|error|Unable to)|"
        r"\bRC: -?\d+\. Error: .{0,80}(?:receiver not ready|unresponsive|Unreachable)|"
        r"efa:\S{0,80}handle_error\(\)..err: \d+",
        "net/ofi", "unresponsive", "handle_error()",
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
        r"ibv_modify_qp..(?:timed out|unreachable|No route|110|101)|Failed to modify QP",
        "ibv_modify_qp", "failed to modify qp",
    ),
    label(
        "memlock_limit", "initiating setting", "raise_limit",
        "The limit of locked memory (memlock) is too low for RDMA; the host has memory.",
        r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_(?:cq|qp)\w*)..Cannot allocate memory|"
        r"ibv_reg_(?:dmabuf_)?mr\w*..failed|locked memory limit|"
        r"RLIMIT_MEMLOCK|fi_mr_reg..failed|Couldn't allocate MR",
        "ibv_reg", "ibv_create", "memlock", "locked memory", "fi_mr_reg", "allocate mr",
    ),
    label(
        "rdma_setup", "initiating setting", "fix_setting",
        "The card of this host could not be set up for RDMA: its name (NCCL_IB_HCA), its GID "
        "index, its driver or its state.",
        r"\bibv_\w{3,30}..failed|Call to ibv_\w{3,30}..(?:failed|error)",
        "ibv_",
    ),
    label(
        "version_mismatch", "initiating setting", "fix_setting",
        "Ranks run different versions of NCCL: install the same one on every node.",
        r"connecting to address with family \d|Mismatched NCCL version|"
        r"NCCL version..(?:mismatch|differ)|Bootstrap..version mismatch|"
        r"Version mismatch..NCCL|incompatible NCCL version",
        "with family", "mismatch", "differ", "incompatible", of_rank=False,
    ),
    label(
        "no_route", "initiating network", "fix_setting",
        "A host cannot be reached: the interface, a firewall or the routing.",
        r"No route to host|Network is unreachable|"
        r"socketStartConnect: Connect to..failed(?!..Connection refused)|"
        r"connect to..failed : (?:Software caused|No route|Connection timed out)|"
        r"Net : Connect to..failed(?!..Connection refused)|"
        r"(?:socket|ncclSocket)\w{0,20}..connect..(?:timed out|Connection timed out)|"
        r"connect..returned Connection timed out",
        "no route to host", "network is unreachable", "connect",
    ),
    label(
        "no_interface", "initiating setting", "fix_setting",
        "The named network interface does not exist on this host (NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME).",
        r"Bootstrap : no socket interface found|no socket interface found|"
        r"Unable to find (?:address|interface) for|Could not find..interface..SOCKET_IFNAME|"
        r"Bootstrap : no..interface|found no usable interface",
        "interface", "unable to find address",
    ),
    label(
        "link_flapped", "context network", "",
        "The network of this host went away and came back.",
        r"Link (?:is )?up|port active|async event: port active",
        "link up", "link is up", "port active",
    ),
)  # fmt: skip
