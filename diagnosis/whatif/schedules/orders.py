"""Schedules whose order is a rule: p devices, m micro-batches, v chunks of a device.

Sources: GPipe (arXiv 1811.06965), 1F1B and interleaved (Megatron-LM, arXiv 2104.04473),
breadth-first (arXiv 2211.05953, MegaDPP's BFC), zero bubble H1 and H2 (arXiv 2401.10241), ZBV
(arXiv 2405.15362) and DualPipeV (DeepSeek-V3, arXiv 2412.19437) in the order of
torch.distributed.pipelining, forward and backward on devices of their own (MegaFBD).
"""

from __future__ import annotations

from collections import Counter, deque

from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD, WEIGHTS, Op, Plan


def gpipe(p: int, m: int) -> Plan:
    """All forwards, then all backwards."""
    orders = [_all(FORWARD, g, m) + _all(BACKWARD, g, m) for g in range(p)]
    return _plan(orders)


def one_f_one_b(p: int, m: int) -> Plan:
    """min(p - g - 1, m) forwards, then one forward and one backward in turn, then backwards."""
    orders = []
    for g in range(p):
        warm_up = min(p - g - 1, m)
        ops = [Op(FORWARD, g, i) for i in range(warm_up)]
        for i in range(m):
            if i + warm_up < m:
                ops.append(Op(FORWARD, g, i + warm_up))
            ops.append(Op(BACKWARD, g, i))
        orders.append(ops)
    return _plan(orders)


def interleaved(p: int, m: int, v: int) -> Plan:
    """1F1B over v chunks, p micro-batches of a chunk after each other; all forwards first where
    there are no more micro-batches than stages, as in Megatron-LM. Raises ValueError where p does
    not divide m.
    """
    _check_multiple(p, m)
    orders = []
    for g in range(p):
        warm_up = m * v if m == p else min(2 * (p - g - 1) + (v - 1) * p, m * v)
        ops = [_turn(FORWARD, g, k, p, v) for k in range(warm_up)]
        for k in range(m * v):
            if k + warm_up < m * v:
                ops.append(_turn(FORWARD, g, k + warm_up, p, v))
            ops.append(_turn(BACKWARD, g, k, p, v))
        orders.append(ops)
    return _plan(orders, v)


def breadth_first(p: int, m: int, v: int) -> Plan:
    """All micro-batches on one chunk, then on the next; backwards the other way round."""
    orders = []
    for g in range(p):
        stages = [chunk * p + g for chunk in range(v)]
        ops = [Op(FORWARD, stage, i) for stage in stages for i in range(m)]
        ops += [Op(BACKWARD, stage, i) for stage in reversed(stages) for i in range(m)]
        orders.append(ops)
    return _plan(orders, v)


def zero_bubble_h1(p: int, m: int) -> Plan:
    """1F1B whose backwards of weights come g micro-batches later."""
    orders = []
    for g in range(p):
        warm_up = min(p - g - 1, m)
        ops = [Op(FORWARD, g, i) for i in range(warm_up)]
        for i in range(m):
            if i + warm_up < m:
                ops.append(Op(FORWARD, g, i + warm_up))
            ops.append(Op(BACKWARD, g, i))
            if i >= g:
                ops.append(Op(WEIGHTS, g, i - g))
        ops += [Op(WEIGHTS, g, i) for i in range(max(m - g, 0), m)]
        orders.append(ops)
    return _plan(orders, is_split=True)


def zero_bubble_h2(p: int, m: int) -> Plan:
    """As many forwards at first as keep a device busy until its first backward can come; each
    device begins its next step as soon as it is done. Raises ValueError for fewer micro-batches
    than that.
    """
    if m < 2 * p - 1:
        raise ValueError(f"it needs at least {2 * p - 1} micro-batches; not {m}")
    orders = []
    for g in range(p):
        warm_up = 2 * (p - g) - 1
        ops = [Op(FORWARD, g, i) for i in range(warm_up)]
        for i in range(m):
            ops.append(Op(BACKWARD, g, i))
            if i >= 2 * g:
                ops.append(Op(WEIGHTS, g, i - 2 * g))
            if i + warm_up < m:
                ops.append(Op(FORWARD, g, i + warm_up))
        ops += [Op(WEIGHTS, g, i) for i in range(m - 2 * g, m)]
        orders.append(ops)
    return _plan(orders, is_split=True)


def interleaved_zero_bubble(p: int, m: int, v: int) -> Plan:
    """Interleaved, with half of its warm-up and backwards of weights g operations later."""
    _check_multiple(p, m)
    orders = []
    for g in range(p):
        warm_up = min((p - g - 1) + (v - 1) * p, m * v)
        ops = [_turn(FORWARD, g, k, p, v) for k in range(warm_up)]
        for k in range(m * v):
            if k + warm_up < m * v:
                ops.append(_turn(FORWARD, g, k + warm_up, p, v))
            ops.append(_turn(BACKWARD, g, k, p, v))
            if k >= g:
                ops.append(_turn(WEIGHTS, g, k - g, p, v))
        ops += [_turn(WEIGHTS, g, k, p, v) for k in range(max(m * v - g, 0), m * v)]
        orders.append(ops)
    return _plan(orders, v, is_split=True)


def zbv(p: int, m: int) -> Plan:
    """Two chunks in the shape of a V: device g has the stages g and 2p - 1 - g."""
    orders = [_zbv_device(p, g, max(2 * p - 1, m)) for g in range(p)]
    kept = [[op for op in ops if op.microbatch < m] for ops in orders]
    return _plan_v(kept, p)


def _zbv_device(p: int, g: int, m: int) -> list[Op]:
    down, up = g, 2 * p - 1 - g
    ops = _Counted()
    for _ in range(2 * (p - g) - 1):
        ops.add(FORWARD, down)
    for _ in range(g):
        ops.add(FORWARD, up)
        ops.add(FORWARD, down)
    for _ in range(p - g):
        ops.add(FORWARD, up)
        ops.add(BACKWARD, up)
        ops.add(WEIGHTS, up)
    while ops.num(FORWARD, up) < ops.num(FORWARD, down) or ops.num(FORWARD, down) < m:
        if ops.num(FORWARD, down) < m:
            ops.add(FORWARD, down)
        ops.add(BACKWARD, down)
        ops.add(WEIGHTS, down)
        ops.add(FORWARD, up)
        ops.add(BACKWARD, up)
        ops.add(WEIGHTS, up)
    for _ in range(g):
        ops.add(BACKWARD, down)
        ops.add(BACKWARD, up)
    for _ in range(p - g):
        ops.add(BACKWARD, down)
        ops.add(WEIGHTS, down)
    for stage in (up, down):
        while ops.num(WEIGHTS, stage) < ops.num(BACKWARD, stage):
            ops.add(WEIGHTS, stage)
    return ops.made


def dualpipe_v(p: int, m: int) -> Plan:
    """Two chunks in the shape of a V whose forwards and backwards run in pairs; raises ValueError
    for fewer than 2p micro-batches. A pair runs one after the other here: what their overlap
    hides is not known.
    """
    if m < 2 * p:
        raise ValueError(f"it needs at least {2 * p} micro-batches; not {m}")
    return _plan_v([_dualpipe_device(p, g, m) for g in range(p)], p)


def _dualpipe_device(p: int, g: int, m: int) -> list[Op]:
    down, up = g, 2 * p - 1 - g
    ops = _Counted()
    later: deque[Op] = deque()  # backwards of weights that are still to come

    def backward(stage: int, is_split: bool) -> None:
        ops.add(BACKWARD, stage)
        own = Op(WEIGHTS, stage, ops.made[-1].microbatch)
        (later if is_split else ops.made).append(own)

    def whole_backward(stage: int) -> None:
        backward(stage, is_split=False)

    def weights() -> None:
        if later:
            ops.made.append(later.popleft())

    for _ in range(2 * (p - g - 1)):
        ops.add(FORWARD, down)
    for _ in range(g + 1):
        ops.add(FORWARD, down)
        ops.add(FORWARD, up)
    for _ in range(p - g - 1):
        backward(up, is_split=True)
        weights()
        ops.add(FORWARD, up)
    for _ in range(m - 2 * p + g + 1):
        ops.add(FORWARD, down)
        whole_backward(up)
        ops.add(FORWARD, up)
        whole_backward(down)
    for _ in range(p - g - 1):
        whole_backward(up)
        ops.add(FORWARD, up)
        whole_backward(down)
    is_split = False
    for i in range(g + 1):
        is_split |= i == (g + 1) // 2 and g % 2 == 1
        backward(up, is_split)
        is_split |= i == (g + 1) // 2 and g % 2 == 0
        backward(down, is_split)
    for _ in range(p - g - 1):
        weights()
        backward(down, is_split)
    while later:
        weights()
    return ops.made


def decoupled(p: int, m: int) -> Plan:
    """Forwards on devices 0 to p - 1, backwards on p to 2p - 1, each in order of micro-batches."""
    orders = [_all(FORWARD, g, m) for g in range(p)] + [_all(BACKWARD, g, m) for g in range(p)]
    return _plan(orders, num_stages=p)


def _check_multiple(p: int, m: int) -> None:
    if m % p:
        raise ValueError(f"it needs a multiple of {p} micro-batches, one for each stage; not {m}")


class _Counted:
    """Operations of a device; each kind takes the micro-batches of a stage in their order."""

    def __init__(self) -> None:
        self.made: list[Op] = []
        self._num: Counter[tuple[str, int]] = Counter()

    def add(self, kind: str, stage: int) -> None:
        self.made.append(Op(kind, stage, self._num[kind, stage]))
        self._num[kind, stage] += 1

    def num(self, kind: str, stage: int) -> int:
        return self._num[kind, stage]


def _all(kind: str, stage: int, m: int) -> list[Op]:
    return [Op(kind, stage, i) for i in range(m)]


def _turn(kind: str, g: int, k: int, p: int, v: int) -> Op:
    """The k-th operation of a kind on a device: p micro-batches on one chunk, then on the next."""
    chunk = k % (p * v) // p
    if kind != FORWARD:
        chunk = v - 1 - chunk
    return Op(kind, chunk * p + g, k // (p * v) * p + k % p)


def _plan(
    orders: list[list[Op]], v: int = 1, is_split: bool = False, num_stages: int | None = None
) -> Plan:
    p = num_stages or len(orders)
    return Plan(tuple(map(tuple, orders)), tuple(range(p)) * v, v, is_split)


def _plan_v(orders: list[list[Op]], p: int) -> Plan:
    home = (*range(p), *reversed(range(p)))
    return Plan(tuple(map(tuple, orders)), home, 2, is_split=True)
