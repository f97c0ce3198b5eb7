"""Trainer of Hugging Face transformers: torchrun --nproc-per-node 2 hf_trainer.py."""

from __future__ import annotations

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from benchmarks.frameworks.jobs import report

VOCABULARY, LENGTH = 512, 128


class Sequences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences of numbers; those behind the training's are for evaluation."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        ids = (item + torch.arange(LENGTH) * (item % 7 + 1)) % VOCABULARY
        return {"input_ids": ids, "labels": ids}


def model() -> GPT2LMHeadModel:
    """A small GPT-2 with random weights."""
    torch.manual_seed(1)
    config = GPT2Config(n_layer=2, n_head=6, n_embd=192, vocab_size=VOCABULARY, n_positions=LENGTH)
    return GPT2LMHeadModel(config)


def main() -> None:
    torch.set_num_threads(1)
    callbacks = []
    if report.WITH_LINES:
        import trace_hooks as th

        callbacks = [th.hf.Callback()]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=report.STEPS,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=report.STEPS // 2,
            save_steps=report.STEPS // 2,
            report_to=[],
            use_cpu=report.DEVICE == "cpu",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model(),
            arguments,
            train_dataset=Sequences(16 * (report.STEPS + 2)),
            eval_dataset=Sequences(16),
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
