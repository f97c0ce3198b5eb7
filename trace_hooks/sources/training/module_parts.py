"""Which modules inside a model are worth a span, found by shape rather than by framework.

A block is a repeated child of a ModuleList, ModuleDict or Sequential, or any module with an
attention inside. Modules outside the blocks (embedding, final norm, head) are parts of their own,
so that parts and blocks together cover the model. Inside a block, one level down, attention and MLP
are recognised by attribute and class name. A block without modules of its own for these (the two
linear layers of nn.TransformerEncoderLayer) shows only what has a module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import ref

import torch
from torch import nn

from trace_hooks.sources.alive import alive

LISTS = (nn.ModuleList, nn.ModuleDict)  # never called themselves
CONTAINERS = (*LISTS, nn.Sequential)

WRAPPER_CHILDREN = ("_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""Attribute under which activation checkpointing's wrapper and FSDP1 keep the module they wrap."""

WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)
"""Classes that keep the wrapped module under `module`."""

ATTENTION = re.compile(r"attn|attention|^mha$", re.IGNORECASE)
MLP = re.compile(r"mlp|feed_?forward|^ffn?$|moe(?![a-z])|^experts$", re.IGNORECASE)
NEITHER = re.compile(r"norm|dropout|rotary|mask|^ln|_ln$", re.IGNORECASE)


@dataclass(frozen=True, eq=False, init=False)
class Part:
    """One module to hook, held weakly: its hooks hold the part, and in a circle they would keep the
    memory of a model that the job drops until Python looks for garbage.

    `name`: dotted path below the watched root, wrappers left out. `block`: the one that an
    attention or MLP belongs to.
    """

    held: ref[nn.Module]
    name: str
    compiled: bool
    block: Part | None

    def __init__(
        self, module: nn.Module, name: str, compiled: bool = False, block: Part | None = None
    ) -> None:
        values = {"held": ref(module), "name": name, "compiled": compiled, "block": block}
        vars(self).update(values)

    @property
    def module(self) -> nn.Module:
        """Raises RuntimeError where it is gone."""
        return alive(self.held, f"the module {self.name}")


def unwrap(module: nn.Module) -> nn.Module:
    """The user's module inside DDP, FSDP1 and checkpointing wrappers."""
    while True:
        if isinstance(module, WRAPPERS):
            module = module.module
            continue
        inner = next((c for n, c in module.named_children() if n in WRAPPER_CHILDREN), None)
        if inner is None:
            return module
        module = inner


def is_compiled(module: nn.Module) -> bool:
    """True for the result of torch.compile(module) and after module.compile()."""
    return "_orig_mod" in module._modules or module.__dict__.get("_compiled_call_impl") is not None


def find_parts(root: nn.Module, level: str = "layers") -> list[Part]:
    """Modules of `root` to hook, outer before inner.

    `level` "blocks": blocks and the modules outside them; "layers": also attention and MLP.
    A compiled module is one part: nothing inside it can be hooked.
    """
    seen: set[int] = set()
    parts: list[Part] = []
    for part in _walk(root, ""):
        if id(part.module) in seen or isinstance(part.module, torch.jit.ScriptModule):
            continue
        seen.add(id(part.module))
        parts.append(part)
        if level == "layers" and not part.compiled:
            for name, child in _layers(part.module):
                if id(child) not in seen:
                    seen.add(id(child))
                    path = f"{part.name}.{name}"
                    parts.append(Part(child, path, is_compiled(child), part))
    return parts


def _walk(module: nn.Module, path: str) -> Iterator[Part]:
    module = unwrap(module)
    if not isinstance(module, LISTS) and (
        is_compiled(module) or next(module.children(), None) is None
    ):
        name = type(getattr(module, "_orig_mod", module)).__name__
        yield Part(module, path or name, is_compiled(module))
        return
    for name, child in module.named_children():
        child = unwrap(child)
        child_path = f"{path}.{name}" if path else name
        if not is_compiled(child) and not _is_block(module, child) and _goes_deeper(child):
            yield from _walk(child, child_path)
        else:
            yield Part(child, child_path, is_compiled(child))


def _goes_deeper(module: nn.Module) -> bool:
    return isinstance(module, LISTS) or _has_blocks(module)


def _has_blocks(module: nn.Module) -> bool:
    for child in map(unwrap, module.children()):
        if _is_block(module, child) or _has_blocks(child):
            return True
    return False


def _is_block(parent: nn.Module, child: nn.Module) -> bool:
    if isinstance(child, LISTS) or next(child.children(), None) is None:
        return False
    if not isinstance(parent, CONTAINERS):
        return not _has_blocks(child) and any(True for _ in _layers(child))
    kinds = Counter(type(unwrap(sibling)) for sibling in parent.children())
    if kinds[type(child)] > 1 or any(True for _ in _layers(child)):
        return True
    return isinstance(parent, LISTS) and not _has_blocks(child)


def _layers(block: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in block.named_children():
        child = unwrap(child)
        if isinstance(child, nn.ModuleList):  # T5 keeps its sub-layers in a list
            inner = ((f"{name}.{key}", unwrap(sub)) for key, sub in child.named_children())
            yield from ((key, sub) for key, sub in inner if _is_layer("", sub))
        elif _is_layer(name, child):
            yield name, child


def _is_layer(name: str, module: nn.Module) -> bool:
    kind = type(getattr(module, "_orig_mod", module))
    plain = kind.__module__.startswith("torch.nn.") and next(module.children(), None) is None
    if plain or isinstance(module, LISTS) or NEITHER.search(name) or NEITHER.search(kind.__name__):
        return False
    return any(
        pattern.search(text) for pattern in (ATTENTION, MLP) for text in (name, kind.__name__)
    )
