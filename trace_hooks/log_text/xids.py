"""Errors of NVIDIA GPUs by their Xid number, as the kernel logs them, and what to do about each.

Source: NVIDIA's Xid catalogue as of October 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_hooks.log_text.label import Label, label

_CODE = r"\bxid\b[^0-9\n]{{0,4}}(?:\([^)\n]{{0,60}}\))?[\s:=]{{0,4}}{code}\b"

_KNOWN = (
    # numbers, role and category, advice, what it is and why the advice follows
    ((48,), "initiating hardware", "cordon_node", "a double-bit ECC error of the GPU's memory"),
    (
        (79,),
        "initiating hardware",
        "cordon_node",
        "the GPU has fallen off the bus: reboot the node",
    ),
    (
        (74, 144, 145, 146, 147, 148, 149, 150),
        "initiating hardware",
        "cordon_node",
        "an error of an NVLink, which a restart on the same node meets again",
    ),
    (
        (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
        "initiating hardware",
        "reset_gpu",
        "the GPU works again only after a reset; drain the node first",
    ),
    (
        (94,),
        "initiating hardware",
        "restart",
        "a contained ECC error: only this process is lost; replace the GPU if it comes again",
    ),
    (
        (13, 31, 69),
        "initiating software",
        "fix_code",
        "mostly an invalid access by a kernel of the program; the same GPU twice: cordon the node",
    ),
    ((43, 45), "cascade hardware", "restart", "the GPU's work was ended after another error"),
    ((63, 92, 121, 137, 154, 157), "context hardware", "", "recorded for information only"),
)

OF_ONE_PROCESS = frozenset((13, 31, 43, 45, 69))
"""Errors of the process that the line names; others on the GPU go on."""

_OTHERS = "an error of the GPU that is not in this list; see NVIDIA's Xid catalogue"


def xid_labels() -> Iterator[Label]:
    """A label for each known number (xid_79), and `xid` for all others."""
    for codes, kind, advice, reason in _KNOWN:
        for code in codes:
            pattern = _CODE.format(code=code)
            yield label(f"xid_{code}", kind, advice, f"Xid {code}: {reason}.", pattern, "xid")
    pattern = _CODE.format(code=r"\d{1,3}")
    yield label("xid", "initiating hardware", "restart", f"{_OTHERS}.", pattern, "nvrm: xid")
