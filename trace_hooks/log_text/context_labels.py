"""What a job writes while it goes on: it prepares data, evaluates, saves.

Source: texts of Hugging Face's trainers and data sets, Lightning and Megatron.
"""

from __future__ import annotations

from trace_hooks.log_text.label import label

CONTEXT_LABELS = (
    label(
        "saving", "context storage", "",
        "It writes a checkpoint.",
        r"\b(?:saving|writing|exporting|uploading|consolidating) (?:\w+ ){0,4}(?:checkpoint|"
        r"model|weights|optimizer|state|safetensors)",
        "saving", "writing", "exporting", "uploading", "consolidating",
    ),
    label(
        "evaluating", "context user_code", "",
        "It evaluates the model.",
        r"\*{3,5} Running (?:Evaluation|Prediction)|\b(?:running|starting|"
        r"begin\w*) (?:\w+ ){0,3}(?:validation|evaluation|eval)\b|\b(?:evaluating|"
        r"validating)\b(?! the (?:installation|environment))",
        "evaluat", "validat", "validation", "prediction", "eval",
    ),
    label(
        "preparing_data", "context data", "",
        "It prepares the data.",
        r"\b(?:tokeniz|preprocess|pre-process|packing|filtering|building|indexing|"
        r"shuffling)\w*\b.{0,60}(?:dataset|data|samples|examples|corpus|index|split)|"
        r"Map(?: \(num_proc=\d+\))?:\s+\d+%|Running tokenizer on|Generating \w+ split",
        "tokeniz", "preprocess", "pre-process", "packing", "filtering", "building", "indexing",
        "shuffling", "map", "generating",
    ),
    label(
        "progress", "context user_code", "",
        "A progress bar.",
        r"\d+%\|.{0,200}\| *[\d.,]+\w?/[\d.,]+",
        "%|",
    ),
)  # fmt: skip
