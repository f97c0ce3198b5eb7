"""A training loop with Accelerate: torchrun --nproc-per-node 2 accelerate_loop.py."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from benchmarks.frameworks.jobs import report
from benchmarks.frameworks.jobs.hf_trainer import Sequences, model

MICROBATCHES = 2


def main() -> None:
    torch.set_num_threads(1)
    trackers = None
    if report.WITH_LINES:
        import trace_hooks as th

        trackers = th.accelerate.Tracker()
    accelerator = Accelerator(
        cpu=report.DEVICE == "cpu",
        gradient_accumulation_steps=MICROBATCHES,
        log_with=trackers,
    )
    accelerator.init_trackers("frameworks")
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    loader = DataLoader(Sequences(16 * (report.STEPS + 2)), 4)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    losses, total, step = {}, torch.zeros((), device=accelerator.device), 0
    for batch in loader:
        with accelerator.accumulate(network):
            loss = network(**batch).loss
            total += loss.detach() / MICROBATCHES
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if not accelerator.sync_gradients:
            continue
        losses[step] = float(total)
        accelerator.log({"loss": losses[step], "lr": 1e-3}, step=step)
        total.zero_()
        step += 1
        if step == report.STEPS:
            break
    kept = losses if accelerator.is_main_process else {}  # others are not asked to log
    report.write(accelerator.process_index, kept, network.parameters())
    accelerator.end_training()


if __name__ == "__main__":
    main()
