"""Makes the files of this folder with the real frameworks; README.md says with which versions.

python -m venv env && env/bin/pip install torch tensorboard transformers accelerate lightning
env/bin/python -u tests/ingest/readers/framework_files/make.py FOLDER > trainer.log 2>&1
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lightning
import tensorboard
import torch
import transformers
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch.utils.tensorboard import SummaryWriter


def hugging_face(folder: Path) -> None:
    """trainer_state.json, and its log on the terminal."""
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    ids = [torch.randint(0, 64, (16,)) for _ in range(80)]
    data = [{"input_ids": row, "labels": row} for row in ids]
    arguments = transformers.TrainingArguments(
        str(folder),
        max_steps=12,
        per_device_train_batch_size=2,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=6,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        include_num_input_tokens_seen=True,
    )
    trainer = transformers.Trainer(
        transformers.LlamaForCausalLM(config), arguments, train_dataset=data, eval_dataset=data[:8]
    )
    trainer.train()
    trainer.save_state()


class _Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, _: int) -> Any:
        loss = self.layer(batch).pow(2).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("val_loss", self.layer(batch).pow(2).mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def lightnings(folder: Path) -> None:
    """metrics.csv and an event file."""
    data = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=2,
        log_every_n_steps=2,
        logger=[CSVLogger(str(folder / "csv")), TensorBoardLogger(str(folder / "tb"))],
        callbacks=[LearningRateMonitor()],
        accelerator="cpu",
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(_Model(), data, data)


def summary_writer(folder: Path) -> None:
    """An event file with Megatron-LM's names of scalars, of both kinds, and a histogram."""
    writer = SummaryWriter(str(folder / "writer"))
    for step in range(1, 6):
        writer.add_scalar("lm loss", 5 - step / 2, step)
        writer.add_scalar("lm loss vs samples", 5 - step / 2, step * 16)
        writer.add_scalar("learning-rate", 1e-4 * step, step)
        writer.add_scalar("iteration-time", 0.25, step)
        writer.add_scalar("grad-norm", 1.5, step, new_style=True)
    writer.add_histogram("weights", torch.linspace(-1, 1, 8), 3)
    writer.close()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    into = Path(sys.argv[1])
    hugging_face(into)
    lightnings(into)
    summary_writer(into)
    for module in (torch, transformers, lightning, tensorboard):
        print(module.__name__, module.__version__)
