"""Makes deepspeed.log: ZeRO-1 on two CPU processes.

DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 make_deepspeed.py | grep INFO > deepspeed.log
"""

from __future__ import annotations

import logging

import deepspeed
import torch

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "steps_per_print": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}

if __name__ == "__main__":
    for level in (deepspeed.utils.logger, *deepspeed.utils.logger.handlers):
        level.setLevel(logging.INFO)  # newer versions print warnings only
    torch.manual_seed(0)
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(8, 8)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=CONFIG
    )
    for _ in range(8):
        engine.backward(engine(torch.randn(2, 8)).pow(2).mean())
        engine.step()
