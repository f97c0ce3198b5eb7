"""FLOPs and bytes of a call, by the shapes of its inputs.

FLOPs: a multiplication and an addition are two. Bytes: every input is read once, every output
written once, so that is the least that must move. Calls that no rule knows are unknown.
"""

from __future__ import annotations

from diagnosis.roofline.attention import ATTENTION
from diagnosis.roofline.calls import Call
from diagnosis.roofline.convolutions import CONVOLUTIONS
from diagnosis.roofline.elementwise import ELEMENTWISE
from diagnosis.roofline.products import PRODUCTS, Rule, Work

RULES: dict[str, Rule] = PRODUCTS | CONVOLUTIONS | ATTENTION | ELEMENTWISE
UNKNOWN = Work(None, None)


def work_of(call: Call) -> Work:
    """FLOPs and bytes of one call, None where they are unknown."""
    rule = RULES.get(call.op)
    return (rule(call) if rule else None) or UNKNOWN
