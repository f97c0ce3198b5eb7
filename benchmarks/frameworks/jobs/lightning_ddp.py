"""Lightning's Trainer, which starts the second rank itself: python lightning_ddp.py."""

from __future__ import annotations

import tempfile
from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader

from benchmarks.frameworks.jobs import report
from sample_traces.jobs.model import GPTSizes, Sequences, build_stage, token_loss

SIZES = GPTSizes(num_layers=2, width=192, num_heads=6, seq_len=128)
BATCH, MICROBATCHES = 4, 2


class Module(lightning.LightningModule):
    """The small GPT; keeps its losses for the benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build_stage(SIZES, 0, 1, seed=1)
        self.losses: list[float] = []

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        """Forward and loss of a micro-batch."""
        loss = token_loss(self.model(batch[:, :-1]), batch[:, 1:])
        self.losses.append(float(loss.detach()))
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: torch.Tensor, _: int) -> None:
        """Loss of a batch held out."""
        self.log("val_loss", token_loss(self.model(batch[:, :-1]), batch[:, 1:]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW over all parameters."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    torch.set_num_threads(1)
    callbacks: list[Any] = []
    if report.WITH_LINES:
        import trace_hooks as th

        callbacks = [th.lightning.Callback()]
    module = Module()
    items = report.RANKS * BATCH * MICROBATCHES * (report.STEPS + 2)
    train, held = (Sequences(SIZES, 1, count, BATCH, []) for count in (items, report.RANKS * BATCH))
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator=report.DEVICE,
            devices=report.RANKS,
            strategy="ddp",
            max_steps=report.STEPS,
            accumulate_grad_batches=MICROBATCHES,
            val_check_interval=report.STEPS,
            log_every_n_steps=1,
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=callbacks,
        )
        trainer.fit(module, DataLoader(train, BATCH), DataLoader(held, BATCH))
        pairs = zip(module.losses[::MICROBATCHES], module.losses[1::MICROBATCHES], strict=True)
        losses = {step: sum(pair) / MICROBATCHES for step, pair in enumerate(pairs)}
        report.write(trainer.global_rank, losses, module.parameters())
        trainer.strategy.barrier()


if __name__ == "__main__":
    main()
