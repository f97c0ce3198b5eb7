"""Token ids that a model reads, and the loss of each token, captured with other content.

Ids are the integers that an embedding outside the blocks is called with (not one of positions), or
those that the script gives (`tracer.tokens`). They name rows and columns of all other frames, so
they are captured in every step in which anything but parameters is. The loss of a token is -log p
of the true next token, float32, from the logits and targets of the next call of
torch.nn.functional.cross_entropy on the rank: the targets that training itself uses, also on the
last of several stages. Without such a call, the true tokens are the ids of the rows below. Class
weights and label smoothing are ignored.

Where the vocabulary is spread over ranks, each captures its own part (sharded_vocabulary.py).

Misses: losses that are computed in another way (fused, in compiled code) on ranks that see no ids;
ids under context parallelism, where no rank has all. Sequences are assumed to be batch-first.

Shapes: B sequences, R rows (tokens), V vocabulary, N captures.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trace_hooks.protocol.frames import ITEM_BYTES
from trace_hooks.recording.guard import guarded
from trace_hooks.recording.rank_state import RankState
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.inspection.capture_kinds import samples_of, token_rows
from trace_hooks.sources.inspection.captures import ActiveWatch, Capture, Rows, charged
from trace_hooks.sources.inspection.frame_queue import FrameQueue
from trace_hooks.sources.inspection.sharded_vocabulary import add_true_tokens, num_columns, parts_of
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.tensors.tensor_samples import is_captured
from trace_hooks.sources.training.module_parts import Part
from trace_hooks.sources.unseen import unseen

MOST_IDS = 16_384
"""Most ids kept of one sequence."""

POSITIONS = re.compile(r"(^|[._])(wpe|pos\w*|token_type\w*|segment\w*)([._]|$)", re.IGNORECASE)
"""Name of an embedding of something other than tokens."""

is_compiling = torch.compiler.is_compiling


@dataclass(frozen=True, eq=False)
class _Returned:
    """Logits that a head has returned and whose loss is not computed yet.

    `guess`: losses from the ids, or captures of a part of the vocabulary. `first_id`: of that part;
    None where the whole vocabulary is here.
    """

    active: ActiveWatch
    part: Part
    stage: int | None
    columns: dict[str, Any]
    rows: Rows
    shape: tuple[int, int, int]  # B, R, V
    thread: int
    guess: list[Capture]
    first_id: int | None


class TokenCaptures:
    """Ids and losses of one rank. Everything runs on the training thread."""

    def __init__(self, rank_state: RankState, frames: FrameQueue) -> None:
        self._rank_state = rank_state
        self._frames = frames
        self._patches = Patches()
        self._is_listening = False
        self._waiting: list[_Returned] = []
        self._ids_BR: Tensor | None = None
        self._script_gave_ids = False  # ids by the script itself

    def listen(self, wants_losses: bool) -> None:
        """Hook every call of cross_entropy, or remove the hook."""
        if wants_losses and not self._is_listening:
            self._patches.replace(torch.nn.functional, "cross_entropy", self._around)
        elif not wants_losses and self._is_listening:
            self._patches.restore()
        self._is_listening = wants_losses

    def step_begin(self) -> None:
        """Forget the step before."""
        self._waiting.clear()
        self._ids_BR, self._script_gave_ids = None, False

    def step_end(self) -> None:
        """Use the losses from the ids, where they are known, for logits that no loss was computed
        of.
        """
        waiting, self._waiting = self._waiting, []
        for returned in waiting:
            if returned.guess:
                self._frames.keep(
                    returned.active, returned.part, returned.stage, iter(returned.guess)
                )
            else:
                returned.active.forget(len(samples_of(returned.active.watch, returned.shape[0])))

    def embedded(self, due: list[ActiveWatch], part: Part, stage: int | None, given: Any) -> None:
        """Keep the argument of an embedding, unless that is of positions or the script gave ids."""
        if self._script_gave_ids or POSITIONS.search(part.name):
            return
        self._keep_ids(due, given, part, stage)

    def is_ids(self, given: Any) -> bool:
        """Whether an argument may hold ids of tokens."""
        return (
            isinstance(given, Tensor)
            and given.dtype in (torch.int32, torch.int64)
            and 1 <= given.dim() <= 2
            and not hasattr(given, "fake_mode")
        )

    def take_given(self, due: list[ActiveWatch], ids: Any) -> None:
        """Take ids that the script gives for this step: (B, R), or (R,)."""
        ids = torch.as_tensor(ids)
        if not self.is_ids(ids):
            raise ValueError(f"ids are {ids.dtype} of {ids.dim()} dimensions; give integers (B, R)")
        self._script_gave_ids = True
        self._keep_ids(due, ids, None, None)

    def returned(
        self,
        active: ActiveWatch,
        part: Part,
        stage: int | None,
        logits: Tensor,
        columns: dict[str, Any],
        first: int,
        first_id: int | None = None,
    ) -> None:
        """Keep (..., R, V) logits of a head until their loss is computed; `first`: their first row.

        They are of the whole vocabulary, or of the part of it that begins with `first_id`.
        """
        self._waiting = [returned for returned in self._waiting if returned.active is not active]
        num_rows, num_tokens = logits.shape[-2:] if logits.dim() > 1 else (1, logits.shape[-1])
        if not logits.numel():
            return
        shape = (logits.numel() // (num_rows * num_tokens), num_rows, num_tokens)
        rows = token_rows(active.watch, num_rows, num_tokens, first)
        num_frames = len(samples_of(active.watch, shape[0]))
        num_bytes = num_frames * (0 if rows is None else rows.of(num_rows)) * ITEM_BYTES["float32"]
        num_bytes *= 1 if first_id is None else num_columns(num_tokens)
        if rows is None or first or not active.allows(num_frames, num_bytes):
            return
        guess: list[Capture] = []
        ids_BR = self._ids_BR
        columns = {**columns, "what": "token_loss"}
        if first_id is not None:
            guess = parts_of(active, logits.detach().reshape(shape), rows, columns, first_id)
        if ids_BR is not None and tuple(ids_BR.shape) == shape[:2]:
            next_BR = torch.full_like(ids_BR, -1)
            next_BR[:, :-1] = ids_BR[:, 1:]
            logits_BRV = logits.detach().reshape(shape)
            next_BR = next_BR.to(logits.device)  # ids that the script gave may be on another device
            if first_id is None:
                guess = list(_losses(active, logits_BRV, next_BR, rows, columns))
            else:
                add_true_tokens(guess, logits_BRV, next_BR, rows, first_id)
        thread = threading.get_ident()
        waiting = _Returned(active, part, stage, columns, rows, shape, thread, guess, first_id)
        self._waiting.append(waiting)

    def _keep_ids(
        self, due: list[ActiveWatch], ids: Tensor, part: Part | None, stage: int | None
    ) -> None:
        if is_captured(ids):
            return
        ids_BR = ids.detach()
        ids_BR = ids_BR.to_local() if hasattr(ids_BR, "to_local") else ids_BR
        ids_BR = ids_BR.reshape(-1, ids_BR.shape[-1])
        self._ids_BR = ids_BR
        wanted = {sample for active in due for sample in samples_of(active.watch, len(ids_BR))}
        samples = sorted(wanted - {UNKNOWN})
        if not samples or not ids_BR.numel():
            return
        columns = {
            "watch": due[0].watch.id,
            "what": "tokens",
            "layer": UNKNOWN,
            "shard": "whole",
            "name": "" if part is None else part.name,
            "microbatch": self._rank_state.microbatch,
            "chunk": self._rank_state.chunk if stage is None else stage,
        }
        num_bytes = len(samples) * min(ids_BR.shape[-1], MOST_IDS) * ITEM_BYTES["float32"]
        if not due[0].allows(0, num_bytes):  # counts as bytes of the watch, not as frames
            return
        some_NR = torch.stack([ids_BR[sample, :MOST_IDS] for sample in samples])
        values_NR1 = some_NR.to(torch.float32).unsqueeze(-1)
        each = [{"sample": sample} for sample in samples]
        capture = Capture(columns, each, values_NR1, "float32", names="values")
        self._frames.keep(due[0], part, stage, iter([capture]), counted=False)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def cross_entropy(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and self._waiting:
                self._loss(args, kwargs)
            return original(*args, **kwargs)

        return cross_entropy

    @guarded("inspection.loss")
    @unseen
    def _loss(self, args: Any, kwargs: dict[str, Any]) -> None:
        """Capture losses where cross-entropy is about to be computed of logits that wait."""
        with charged([returned.active for returned in self._waiting]):
            thread = threading.get_ident()
            self._waiting = [
                returned
                for returned in self._waiting
                if returned.thread != thread or not self._is_about(returned, args, kwargs)
            ]

    def _is_about(self, returned: _Returned, args: Any, kwargs: dict[str, Any]) -> bool:
        """Keep the losses if a call of cross_entropy is about these logits; whether it is."""
        if is_captured(_argument(args, kwargs, 0, "input")):
            return False
        logits, target = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "target")
        ignored = kwargs.get("ignore_index", args[4] if len(args) > 4 else -100)
        if returned.first_id is not None:
            logits, target = _own(logits), _own(target)
        both = _by_sequence(logits, target, returned.shape)
        if both is None:
            return False
        logits_BRV, target_BR = both
        target_BR = target_BR.masked_fill(target_BR == ignored, -1)
        if returned.first_id is None:
            made = _losses(returned.active, logits_BRV, target_BR, returned.rows, returned.columns)
        else:
            add_true_tokens(returned.guess, logits_BRV, target_BR, returned.rows, returned.first_id)
            made = iter(returned.guess)
        self._frames.keep(returned.active, returned.part, returned.stage, made)
        return True


def _argument(args: Any, kwargs: dict[str, Any], index: int, name: str) -> Any:
    return args[index] if len(args) > index else kwargs.get(name)


def _own(tensor: Any) -> Any:
    """This rank's part of a DTensor; anything else as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _by_sequence(
    logits: Any, target: Any, shape: tuple[int, int, int]
) -> tuple[Tensor, Tensor] | None:
    """(B, R', V) logits and (B, R') targets of a call about logits of `shape`; R' is R, or R - 1
    where the script has left out the last row. None where it is about other logits.
    """
    if not isinstance(logits, Tensor) or not isinstance(target, Tensor):
        return None
    if hasattr(logits, "to_local") or hasattr(target, "to_local") or target.is_floating_point():
        return None  # parts of a vocabulary, or probabilities
    num_samples, num_rows, num_tokens = shape
    if logits.dim() > 2:
        logits = logits.movedim(1, -1)  # (B, V, R) is what cross_entropy takes
    if logits.dim() < 2 or logits.shape[-1] != num_tokens:
        return None
    for rows in (num_rows, num_rows - 1):
        if rows and target.numel() == num_samples * rows:
            logits_BRV = logits.detach().reshape(num_samples, rows, num_tokens)
            return logits_BRV, target.detach().reshape(num_samples, rows)
    return None


def _losses(
    active: ActiveWatch, logits_BRV: Tensor, target_BR: Tensor, rows: Rows, columns: dict[str, Any]
) -> Iterator[Capture]:
    """-log p of the true token of each row, NaN where there is none (-1); labels: those tokens."""
    for wanted in samples_of(active.watch, len(logits_BRV)):
        sample = max(0, wanted)  # a mean over different tokens means nothing
        logits_RV = logits_BRV[sample, rows.slice].float()
        target_R = target_BR[sample, rows.slice].long()  # ids may be int32
        true_R = logits_RV.gather(-1, target_R.clamp(min=0)[:, None])[:, 0]
        loss_R = (logits_RV.logsumexp(-1) - true_R).masked_fill(target_R < 0, torch.nan)
        both_RC = torch.stack([loss_R, target_R.float()], -1)
        common = {**columns, "row_begin": rows.begin, "row_every": rows.every}
        yield Capture(common, [{"sample": sample}], both_RC[None], "float32", names="second half")
