import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from tests.trace_hooks.tiny_models import PARTS, Attention, Block, TinyGPT
from trace_hooks.sources.training.module_parts import find_parts


def names(root: nn.Module, level: str = "layers") -> list[str]:
    return [part.name for part in find_parts(root, level)]


def named(kind: str, **children: nn.Module) -> nn.Module:
    """A module of class `kind` with these children, as a framework would have it."""
    module = type(kind, (nn.Module,), {})()
    for name, child in children.items():
        module.add_module(name, child)
    return module


def llama_layer() -> nn.Module:
    linear = {"q_proj": nn.Linear(4, 4), "o_proj": nn.Linear(4, 4)}
    return named(
        "LlamaDecoderLayer",
        self_attn=named("LlamaAttention", **linear),
        mlp=named("LlamaMLP", up_proj=nn.Linear(4, 8)),
        input_layernorm=named("LlamaRMSNorm"),
        post_attention_layernorm=named("LlamaRMSNorm"),
    )


def test_blocks_with_their_attention_and_mlp_and_the_other_modules():
    assert names(TinyGPT()) == PARTS


def test_level_blocks_leaves_out_what_is_inside():
    assert names(TinyGPT(), "blocks") == ["embedding", "layers.0", "layers.1", "norm", "head"]


def test_shape_of_hugging_face():
    inner = named(
        "LlamaModel",
        embed_tokens=nn.Embedding(3, 4),
        layers=nn.ModuleList([llama_layer(), llama_layer()]),
        norm=named("LlamaRMSNorm"),
        rotary_emb=named("LlamaRotaryEmbedding"),
    )
    model = named("LlamaForCausalLM", model=inner, lm_head=nn.Linear(4, 3))
    assert names(model) == [
        "model.embed_tokens",
        "model.layers.0",
        "model.layers.0.self_attn",
        "model.layers.0.mlp",
        "model.layers.1",
        "model.layers.1.self_attn",
        "model.layers.1.mlp",
        "model.norm",
        "model.rotary_emb",
        "lm_head",
    ]


def test_shape_of_torchtitan_a_module_dict_and_experts_inside_a_block():
    def block() -> nn.Module:
        experts = nn.ModuleList(named("Expert", w1=nn.Linear(4, 4)) for _ in range(2))
        return named(
            "TransformerBlock",
            attention=named("Attention", wq=nn.Linear(4, 4)),
            moe=named("MoE", experts=experts, router=nn.Linear(4, 2)),
            attention_norm=nn.RMSNorm(4),
        )

    layers = nn.ModuleDict({"4": block(), "5": block()})
    model = named("Transformer", tok_embeddings=nn.Embedding(3, 4), layers=layers)
    assert names(model) == [
        "tok_embeddings",
        "layers.4",
        "layers.4.attention",
        "layers.4.moe",
        "layers.5",
        "layers.5.attention",
        "layers.5.moe",
    ]


def test_shape_of_nano_gpt_parts_and_blocks_in_one_module_dict():
    blocks = nn.ModuleList([Block(4), Block(4)])
    transformer = nn.ModuleDict({"wte": nn.Embedding(3, 4), "h": blocks, "ln_f": nn.LayerNorm(4)})
    model = named("GPT", transformer=transformer, lm_head=nn.Linear(4, 3))
    assert names(model, "blocks") == [
        "transformer.wte",
        "transformer.h.0",
        "transformer.h.1",
        "transformer.ln_f",
        "lm_head",
    ]


def test_transformer_encoder_of_torch():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)
    assert names(encoder) == ["layers.0", "layers.0.self_attn", "layers.1", "layers.1.self_attn"]


def test_a_pipeline_stage_with_one_layer_left():
    assert names(TinyGPT(blocks=1), "blocks") == ["embedding", "layers.0", "norm", "head"]
    assert names(nn.Sequential(nn.Embedding(3, 4), Block(4)), "blocks") == ["0", "1"]
    assert "1.attention" in names(nn.Sequential(nn.Embedding(3, 4), Block(4)))


def test_resnet_stages_of_repeated_blocks():
    class Bottleneck(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 1, 1)

    model = named(
        "ResNet",
        conv1=nn.Conv2d(1, 1, 1),
        layer1=nn.Sequential(Bottleneck(), Bottleneck()),
        fc=nn.Linear(1, 1),
    )
    assert names(model) == ["conv1", "layer1.0", "layer1.1", "fc"]


def test_a_model_without_blocks_is_its_children_and_a_leaf_is_itself():
    assert names(named("Net", fc1=nn.Linear(1, 1), body=nn.Sequential(nn.ReLU()))) == [
        "fc1",
        "body",
    ]
    assert names(nn.Sequential(nn.Linear(1, 1), nn.ReLU())) == ["0", "1"]
    assert names(nn.Linear(1, 1)) == ["Linear"]


def test_wrappers_are_looked_through():
    model = TinyGPT()
    model.layers[0] = checkpoint_wrapper(model.layers[0])
    parts = find_parts(nn.DataParallel(model))
    assert [part.name for part in parts] == names(TinyGPT())
    assert type(parts[1].module) is Block


def test_compiled_modules_are_opaque():
    model = TinyGPT()
    model.layers[0].compile(backend="eager")
    model.layers[1] = torch.compile(model.layers[1], backend="eager")
    found = {part.name: part.compiled for part in find_parts(model)}
    assert found == {
        "embedding": False,
        "layers.0": True,
        "layers.1": True,
        "norm": False,
        "head": False,
    }


def test_shared_modules_are_named_once_and_parts_know_their_block():
    block = Block(4)
    parts = find_parts(nn.Sequential(block, block, Block(4)))
    by_name = {part.name: part for part in parts}
    assert list(by_name) == ["0", "0.attention", "0.mlp", "2", "2.attention", "2.mlp"]
    assert by_name["0.mlp"].block is by_name["0"]
    assert by_name["0"].block is None


@pytest.mark.parametrize(
    ("attribute", "kind", "found"),
    [
        ("ffn", "Dense", True),
        ("moe", "Router", True),
        ("ff", "Dense", True),
        ("feed_forward", "Dense", True),
        ("x", "GroupedQueryAttention", True),
        ("attn_norm", "RMSNorm", False),
        ("ffn_dropout", "Drop", False),
        ("post_attention_layernorm", "Scale", False),
        ("gate", "Dense", False),
        ("smoelting", "Dense", False),
    ],
)
def test_attention_and_mlp_by_name(attribute: str, kind: str, found: bool):
    child = named(kind, weight=nn.Linear(1, 1))
    blocks = nn.ModuleList([named("B", **{attribute: child}), named("B", other=Attention(4))])
    assert (f"0.{attribute}" in names(blocks)) is found


def test_plain_linear_layers_are_no_attention():
    assert names(nn.ModuleList([named("B", attn_qkv=nn.Linear(1, 1)) for _ in range(2)])) == [
        "0",
        "1",
    ]
