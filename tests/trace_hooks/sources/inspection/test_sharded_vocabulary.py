"""Parts of a vocabulary say as much as the whole."""

from __future__ import annotations

import torch

from trace_hooks.protocol.watches import Watch
from trace_hooks.sources.inspection.captures import ActiveWatch, Rows
from trace_hooks.sources.inspection.sharded_vocabulary import add_true_tokens, parts_of

AT = {"watch": "w", "what": "token_loss"}
ROWS = Rows(slice(0, 3), 0, 1)


def test_the_loss_follows_from_all_parts() -> None:
    logits_BRV = torch.randn(1, 3, 40, generator=torch.Generator().manual_seed(3))
    target_BR = torch.tensor([[2, 39, -1]])
    sums, true = [], torch.full((3,), torch.nan)
    for first_id in (0, 20):
        part_BRV = logits_BRV[..., first_id : first_id + 20]
        captures = parts_of(ActiveWatch(Watch("w", "logits")), part_BRV, ROWS, AT, first_id)
        add_true_tokens(captures, part_BRV, target_BR, ROWS, first_id)
        values_RC, ids_RC = captures[0].values[0].chunk(2, dim=-1)
        sums.append(values_RC[:, -2])
        here_R = ~values_RC[:, -1].isnan()
        true[here_R] = values_RC[here_R, -1]
        assert ids_RC[:, -1].tolist() == [2.0, 39.0, -1.0]
        assert bool((ids_RC[:, :20] >= first_id).all())
    loss_R = torch.stack(sums).logsumexp(0) - true
    expected_R = torch.nn.functional.cross_entropy(
        logits_BRV[0], target_BR[0].clamp(min=0), reduction="none"
    )
    assert torch.allclose(loss_R[:2], expected_R[:2])
    assert bool(loss_R[2].isnan())
