"""Minder (2411.01791) after its description: a small LSTM-VAE per metric, and distances.

Windows of 8 samples of one machine and metric, min-max normalised; hidden size 4, latent size 8,
one layer, trained until the error is below 1e-4 or the epochs are over. The score of a machine is
the distance of its reconstructed window to the window of medians (the sum of distances to all
others orders machines the same way, at many times the cost), in standard deviations over the
machines, divided by the most that one of N can reach, so that one threshold serves all sizes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from benchmarks.machine_rivals import STRIDE_S, WINDOW_S, Singles
from benchmarks.machine_rivals.simple import Ranked

HIDDEN, LATENT = 4, 8
_ERROR, _EPOCHS, _BATCH, _RATE = 1e-4, 60, 256, 0.01
_KL, _LOG_VARIANCE = 1e-6, -8.0
"""Weight of the prior, and the variance that training begins with: else it learns nothing."""


class WindowModel(nn.Module):
    """LSTM-VAE of windows of one metric, [B, 8, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(1, HIDDEN, batch_first=True)
        self.mean, self.log_variance = nn.Linear(HIDDEN, LATENT), nn.Linear(HIDDEN, LATENT)
        nn.init.constant_(self.log_variance.bias, _LOG_VARIANCE)
        self.first = nn.Linear(LATENT, HIDDEN)
        self.decoder = nn.LSTM(LATENT, HIDDEN, batch_first=True)
        self.last = nn.Linear(HIDDEN, 1)

    def forward(self, x: torch.Tensor, sampled: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstruction, and the divergence from the prior."""
        _, (hidden, _) = self.encoder(x)
        mean, log_variance = self.mean(hidden[0]), self.log_variance(hidden[0]).clamp(-10, 10)
        noise = torch.randn_like(mean) * torch.exp(log_variance / 2) if sampled else 0.0
        latent = mean + noise
        state = torch.tanh(self.first(latent))[None]
        steps = latent[:, None].expand(-1, x.shape[1], -1).contiguous()
        decoded, _ = self.decoder(steps, (state, torch.zeros_like(state)))
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
        return self.last(decoded), divergence


class Minder:
    """One model per metric, trained on healthy jobs."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.models: dict[str, WindowModel] = {}

    def train(self, windows_by_metric: dict[str, Singles]) -> dict[str, float]:
        """From windows [B, 8] of each metric; returns the last errors."""
        return {name: self._train(name, rows) for name, rows in windows_by_metric.items()}

    def _train(self, name: str, rows: Singles) -> float:
        model = self.models.setdefault(name, WindowModel())
        optimizer = torch.optim.Adam(model.parameters(), _RATE)
        x = torch.from_numpy(rows)[..., None]
        error = float("inf")
        for _ in range(_EPOCHS):
            errors = []
            for batch in torch.randperm(len(x)).split(_BATCH):
                made, divergence = model(x[batch], sampled=True)
                loss = nn.functional.mse_loss(made, x[batch])
                optimizer.zero_grad()
                (loss + _KL * divergence).backward()
                optimizer.step()
                errors.append(float(loss.detach()))
            error = float(np.mean(errors))
            if error < _ERROR:
                break
        return error

    def ranked(self, metrics: tuple[str, ...], prepared_MTN: Singles) -> Ranked:
        """Machine furthest out, over all metrics, of each window."""
        best: Singles | None = None
        for index, name in enumerate(metrics):
            if name not in self.models:
                continue
            score_WN = self._scores(self.models[name], cut(prepared_MTN[index]))
            best = score_WN if best is None else np.maximum(best, score_WN)
        assert best is not None, "no metric of this job was trained"
        return best.argmax(axis=1), best.max(axis=1).astype(np.float64)

    def _scores(self, model: WindowModel, windows_WNK: Singles) -> Singles:
        num_windows, num_machines, size = windows_WNK.shape
        with torch.no_grad():
            made, _ = model(torch.from_numpy(windows_WNK.reshape(-1, size, 1)), sampled=False)
        made_WNK = made.numpy().reshape(num_windows, num_machines, size)
        away_WN = np.linalg.norm(made_WNK - np.median(made_WNK, axis=1, keepdims=True), axis=2)
        spread_W1 = np.maximum(away_WN.std(axis=1, keepdims=True), 1e-3)
        most = (num_machines - 1) / np.sqrt(num_machines)
        return np.asarray(
            (away_WN - away_WN.mean(axis=1, keepdims=True)) / spread_W1 / most, np.float32
        )


def cut(values_TN: Singles) -> Singles:
    """Windows of all machines, one every STRIDE_S: [W, N, 8]."""
    view = np.lib.stride_tricks.sliding_window_view(values_TN, WINDOW_S, axis=0)
    return np.ascontiguousarray(view[1::STRIDE_S][: len(range(WINDOW_S, len(values_TN), STRIDE_S))])
