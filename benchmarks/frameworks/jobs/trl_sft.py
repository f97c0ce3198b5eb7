"""SFTTrainer of TRL with LoRA adapters of PEFT: torchrun --nproc-per-node 2 trl_sft.py."""

from __future__ import annotations

import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from benchmarks.frameworks.jobs import report
from benchmarks.frameworks.jobs.hf_trainer import LENGTH, VOCABULARY, Sequences, model


def tokenizer() -> PreTrainedTokenizerFast:
    """A word for each number."""
    words = {str(number): number for number in range(VOCABULARY - 2)}
    words |= {"<pad>": VOCABULARY - 2, "<eos>": VOCABULARY - 1}
    made = Tokenizer(WordLevel(words, unk_token="<eos>"))
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def main() -> None:
    torch.set_num_threads(1)
    callbacks = []
    if report.WITH_LINES:
        import trace_hooks as th

        callbacks = [th.hf.Callback()]
    sequences = Sequences(8 * (report.STEPS + 2))
    rows = [{"input_ids": sequences[item]["input_ids"].tolist()} for item in range(len(sequences))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = SFTConfig(
            folder,
            max_steps=report.STEPS,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=1,
            logging_steps=1,
            max_length=LENGTH,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        )
        trainer = SFTTrainer(
            model(),
            arguments,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer(),
            peft_config=LoraConfig(target_modules=["c_attn"], task_type="CAUSAL_LM"),
            callbacks=callbacks,
        )
        trainer.train()
        logs = trainer.state.log_history
        losses = {log["step"]: log["loss"] for log in logs if "loss" in log}
        report.write(arguments.process_index, losses, trainer.model.parameters())
        trainer.accelerator.wait_for_everyone()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
