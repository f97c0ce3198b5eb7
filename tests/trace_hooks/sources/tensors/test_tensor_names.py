"""The layer and the role of a module or parameter, from its path."""

from __future__ import annotations

import pytest

from trace_hooks.schema import TENSORS
from trace_hooks.sources.tensors.tensor_names import (
    NO_LAYER,
    Place,
    output_place,
    parameter_place,
    plain_path,
)


@pytest.mark.parametrize(
    ("path", "kind", "place"),
    [
        ("model.layers.3", "Block", Place(3, "model.layers.3", "residual")),
        ("h.0.attn", "Attention", Place(0, "h.0.attn", "attention")),
        ("h.0.mixer", "GroupedQueryAttention", Place(0, "h.0.mixer", "attention")),
        ("h.0.block_sparse_moe", "MoE", Place(0, "h.0.block_sparse_moe", "mlp")),
        ("h.0.attention_norm", "LayerNorm", Place(0, "h.0.attention_norm", "output")),
        ("module.lm_head", "Linear", Place(NO_LAYER, "lm_head", "output")),
        ("blocks.2", "Block", Place(2, "blocks.2", "residual")),
        ("model.layers.31.self_attn", "X", Place(31, "model.layers.31.self_attn", "attention")),
        ("h.0.mixer", "MambaAttention", Place(0, "h.0.mixer", "attention")),
        ("module.layers.4.mlp", "MLP", Place(4, "layers.4.mlp", "mlp")),
        ("layers.3._orig_mod", "Block", Place(3, "layers.3", "residual")),
        ("embedding", "Embedding", Place(NO_LAYER, "embedding", "output")),
        (
            "model.layers.5.input_layernorm",
            "Norm",
            Place(5, "model.layers.5.input_layernorm", "output"),
        ),
    ],
)
def test_places_of_outputs(path: str, kind: str, place: Place) -> None:
    assert output_place(path, kind) == place
    assert place.tensor in TENSORS


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("layers.3.self_attn.q_proj.weight", Place(3, "layers.3.self_attn", "attention")),
        ("layers.3.mlp.0.weight", Place(3, "layers.3.mlp", "mlp")),
        ("layers.3.norm.weight", Place(3, "layers.3", "residual")),
        ("embedding.weight", Place(NO_LAYER, "embedding", "output")),
        ("scale", Place(NO_LAYER, "scale", "output")),
    ],
)
def test_places_of_parameters(path: str, place: Place) -> None:
    assert parameter_place(path) == place


@pytest.mark.parametrize(
    ("path", "layer", "name"),
    [
        ("blocks.2.attention.qkv.weight", 2, "blocks.2.attention"),
        ("module.blocks.2.attention_norm.weight", 2, "blocks.2"),
        ("layers.7.mlp.experts.3.w1.weight", 7, "layers.7.mlp"),
        ("transformer.h.0.attn.c_attn.bias", 0, "transformer.h.0.attn"),
        ("head.weight", -1, "head"),
        ("_orig_mod.embedding.weight", -1, "embedding"),
        ("scale", -1, "scale"),
    ],
)
def test_parameters_are_grouped_by_layer_and_role(path: str, layer: int, name: str):
    place = parameter_place(path)
    assert (place.layer, place.name) == (layer, name)


def test_wrappers_are_left_out_of_a_path() -> None:
    path = "module._fsdp_wrapped_module._orig_mod.h.1._checkpoint_wrapped_module.attn.weight"
    assert plain_path(path) == "h.1.attn.weight"
