"""What was agreed on public failures, of whose logs short ones stand in public_cases/.

The logs are rebuilt from the lines that the threads quote; numbers, names and paths differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("public_cases")


@dataclass(frozen=True)
class PublicCase:
    """`name`: of the log; `grade`: A confirmed, B diagnosed by somebody, I inferred from lines, N
    unknown. `says`: a piece of the line that shows the cause, '' where nothing may be claimed;
    `advice`: the word that fits; `ranks`, `hosts`: whom a finding may name; `also`: pieces of its
    sentences; `may_be_silent`: the log alone hardly shows the cause.
    """

    name: str
    grade: str
    says: str = ""
    advice: str = ""
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    also: tuple[str, ...] = ()
    may_be_silent: bool = False

    @property
    def log(self) -> str:
        """The lines of all ranks."""
        return (FOLDER / f"{self.name}.log").read_text()


CASES = (
    PublicCase(
        "nccl-342",
        "A",
        says="posix_fallocate",
        advice="raise_limit",
        ranks={1},
        also=("not the disk",),
    ),
    PublicCase("nccl-2079", "A"),
    PublicCase(
        "nccl-tests-206",
        "A",
        says="ibv_reg_mr_iova2",
        advice="raise_limit",
        ranks={0},
        also=("the host has memory",),
    ),
    PublicCase(
        "nccl-769",
        "B",
        says="ibv_modify_qp",
        advice="fix_setting",
        ranks={0},
        hosts={"w0"},
        also=("NCCL_IB_GID_INDEX",),
    ),
    PublicCase("nccl-905", "B", says="port error", advice="cordon_node", hosts={"n4"}),
    PublicCase("pytorch-35710", "B", says="802", advice="reset_gpu", also=("fabric manager",)),
    PublicCase(
        "nccl-1488",
        "A",
        says="invalid argument",
        advice="reset_gpu",
        ranks={2},
        hosts={"node23"},
        also=("fabric manager",),
    ),
    PublicCase("nccl-1267", "A", says="family 0", advice="fix_setting", also=("versions of NCCL",)),
    PublicCase(
        "sglang-3794",
        "A",
        says="No route to host",
        advice="fix_setting",
        ranks={0},
        also=("firewall",),
    ),
    PublicCase("horovod-824", "A"),
    PublicCase(
        "llamafactory-2424",
        "A",
        says="Running tokenizer",
        advice="fix_setting",
        ranks={0},
        also=(
            "alone prepared data",
            "longer timeout",
        ),
    ),
    PublicCase(
        "transformers-17106",
        "A",
        says="Running tokenizer",
        advice="fix_setting",
        ranks={0},
        also=("alone prepared data",),
    ),
    PublicCase(
        "autocast-381",
        "A",
        says="Watchdog caught",
        advice="fix_code",
        ranks={0},
        may_be_silent=True,
    ),
    PublicCase("fast-llm-543", "A", says="Desync detected", advice="fix_code"),
    PublicCase(
        "finetrainers-114",
        "B",
        says="Running validation",
        advice="fix_setting",
        ranks={0},
        also=("alone evaluated",),
    ),
    PublicCase("deepspeed-8262", "A"),
    PublicCase("ms-swift-9443", "B", says="Detected mismatch", advice="fix_code"),
    PublicCase("spark-19", "A", says="signal", advice="fix_setting", also=("tmux",)),
    PublicCase(
        "bert-nmt-14", "A", says="SIGKILL", advice="raise_limit", ranks={1}, also=("out-of-memory",)
    ),
    PublicCase("torchtune-392", "A", says="Address already in use", advice="fix_setting"),
    PublicCase(
        "nccl-241",
        "A",
        says="peer mapping resources",
        advice="fix_setting",
        ranks={8},
        also=("X server",),
    ),
    PublicCase("vllm-7896", "A"),
    PublicCase("marin-7344", "A"),
    PublicCase("sglang-33549", "B"),
    PublicCase("nccl-1235", "I", says="out of memory", advice="fix_code", ranks={3}, hosts={"ng3"}),
    PublicCase("vllm-46097", "N"),
    PublicCase("bigscience-c8", "B"),
)
"""A case without `says`: slow, silent, or only echoes; nothing may be claimed from its log."""
