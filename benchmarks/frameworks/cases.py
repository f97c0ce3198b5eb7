"""The jobs, how each is launched, and what is true of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

JOBS = Path(__file__).with_name("jobs")


@dataclass(frozen=True)
class Case:
    """A job. `ranks`, `layout`, `microbatches` and `tokens` (of a replica and step) are true of it.

    `layout`: None where the framework's ranks have none to speak of. `microbatches` and `tokens`:
    None where they are not compared, and `not_compared` says why. `first_step`: number of the first
    step with the lines of docs/frameworks.md; without them it is 0. `own_launcher`: the script
    starts its ranks itself. `needs_lines`: what is compared only with those lines. `on_gpus`: each
    rank computes on a GPU of its own.
    """

    name: str
    title: str
    script: str
    arguments: tuple[str, ...]
    ranks: int
    layout: dict[str, int] | None
    distributions: tuple[str, ...]
    microbatches: int | None = 1
    tokens: int | None = None
    not_compared: str = ""
    first_step: int = 0
    own_launcher: bool = False
    environ: tuple[tuple[str, str], ...] = ()
    needs_lines: tuple[str, ...] = ()
    on_gpus: bool = False


CASES = (
    Case("ddp", "torch DDP", "plain_torch.py", ("ddp",), 2, {"dp": 2}, ("torch",), 1, 516),
    Case(
        "fsdp2", "torch FSDP2", "plain_torch.py", ("fsdp2",), 2, {"dp_shard": 2}, ("torch",), 1, 516
    ),
    Case(
        "hsdp",
        "torch HSDP",
        "plain_torch.py",
        ("hsdp",),
        4,
        {"dp_replicate": 2, "dp_shard": 2},
        ("torch",),
        1,
        516,
    ),
    Case("pp", "torch pipelining", "plain_torch.py", ("pp",), 2, {"pp": 2}, ("torch",), 4, 516),
    Case("tp", "torch TP", "plain_torch.py", ("tp",), 2, {"dp": 1, "tp": 2}, ("torch",), 1, 516),
    Case(
        "hf",
        "Hugging Face Trainer",
        "hf_trainer.py",
        (),
        2,
        {"dp": 2},
        ("transformers", "accelerate"),
        2,
        1024,
        first_step=1,
    ),
    Case(
        "trl",
        "TRL SFTTrainer, LoRA",
        "trl_sft.py",
        (),
        2,
        {"dp": 2},
        ("trl", "peft", "transformers"),
        1,
        512,
        first_step=1,
    ),
    Case(
        "accelerate",
        "Accelerate",
        "accelerate_loop.py",
        (),
        2,
        {"dp": 2},
        ("accelerate",),
        2,
        1024,
    ),
    Case(
        "lightning",
        "Lightning",
        "lightning_ddp.py",
        (),
        2,
        {"dp": 2},
        ("lightning",),
        2,
        1032,
        own_launcher=True,
    ),
    *(
        Case(
            f"zero{stage}",
            f"DeepSpeed ZeRO-{stage}",
            "deepspeed_engine.py",
            (f"zero{stage}",),
            2,
            {"dp": 2},
            ("deepspeed",),
            2,
            1024,
            environ=(("DS_ACCELERATOR", "cpu"),),
        )
        for stage in (1, 2, 3)
    ),
    Case(
        "deepspeed-pp",
        "DeepSpeed pipeline engine",
        "deepspeed_engine.py",
        ("pipeline",),
        4,
        {"pp": 2, "dp": 2},
        ("deepspeed",),
        4,
        2048,
        environ=(("DS_ACCELERATOR", "cpu"),),
        needs_lines=("microbatches",),
    ),
    *(
        Case(
            name,
            title,
            "megatron_core.py",
            arguments,
            4,
            {"pp": 2, "tp": 2},
            ("megatron-core",),
            microbatches,
            tokens=1024,
            needs_lines=("microbatches", "tokens"),
        )
        for name, title, arguments, microbatches in (
            ("megatron", "Megatron-core", (), 4),
            ("megatron-vp", "Megatron-core, interleaved", ("interleaved",), 4),
        )
    ),
    *(
        Case(
            f"torchtitan-{kind}",
            f"torchtitan debug model, {title}",
            "torchtitan_debug.py",
            (kind,),
            ranks,
            layout,
            ("torchtitan",),
            2,
            1024,
            first_step=1,
            needs_lines=("tokens",),
        )
        for kind, title, ranks, layout in (
            ("fsdp", "FSDP", 2, {"dp_shard": 2}),
            ("hsdp", "HSDP", 4, {"dp_replicate": 2, "dp_shard": 2}),
            ("tp", "FSDP x TP", 4, {"dp_shard": 2, "tp": 2}),
        )
    ),
)

ALSO_ON_GPUS = ("ddp", "fsdp2", "hf", "accelerate", "lightning")
"""Cases whose jobs run on a CUDA device as they are."""


def on_gpus(num_gpus: int) -> tuple[Case, ...]:
    """These cases with a rank for each of `num_gpus`, data parallel over NCCL."""
    return tuple(
        replace(
            case,
            ranks=num_gpus,
            layout=_layout(case, num_gpus),
            on_gpus=True,
        )
        for case in CASES
        if case.name in ALSO_ON_GPUS
    )


def _layout(case: Case, num_gpus: int) -> dict[str, int] | None:
    """What is recorded of it: a rank alone has a layout only where the job has a device mesh."""
    if num_gpus == 1 and case.layout == {"dp": 2}:
        return None
    return case.layout and dict.fromkeys(case.layout, num_gpus)
