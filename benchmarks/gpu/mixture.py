"""A small model whose layers choose among experts, without a wait for the device in its own code.

Shapes: N tokens, D width, E experts, K experts of a token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.gpu.figures import Place

LAYERS, EXPERTS, TOP_K = 4, 16, 2


class Router(nn.Module):
    """Chooses the experts of each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, EXPERTS, bias=False)

    def forward(self, x_ND: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D) -> weights (N, K), experts (N, K)."""
        scores_NE = self.gate(x_ND).softmax(dim=-1)
        weights_NK, chosen_NK = scores_NE.topk(TOP_K, dim=-1)
        return weights_NK, chosen_NK


class ExpertLayer(nn.Module):
    """All experts compute all tokens, and weights select: no shape depends on the choices."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = Router(width)
        self.up_EDD = nn.Parameter(torch.randn(EXPERTS, width, width) * width**-0.5)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        weights_NK, chosen_NK = self.router(x_ND)
        empty_NE = x_ND.new_zeros(len(x_ND), EXPERTS)
        weights_NE = empty_NE.scatter(1, chosen_NK, weights_NK)
        each_END = torch.einsum("nd,edf->enf", x_ND, self.up_EDD).relu()
        return x_ND + torch.einsum("enf,ne->nf", each_END, weights_NE)


class MixtureTraining:
    """Trains it on the same numbers each time. `choices`: of each step and layer, (N, K), copies
    that this class makes itself if asked to.
    """

    def __init__(self, place: Place) -> None:
        torch.manual_seed(0)
        width, tokens = place.sized(256, 16), place.sized(4096, 64)
        layers = [ExpertLayer(width) for _ in range(LAYERS)]
        self.model = nn.Sequential(*layers).to(place.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, fused=not place.is_rehearsal, capturable=False
        )
        self.inputs = torch.randn(8, tokens, width).to(place.device)
        self.choices: list[list[Tensor]] = []
        self._number = 0

    @property
    def routers(self) -> list[Router]:
        """In the order of the layers."""
        return [layer.router for layer in self.model.children() if isinstance(layer, ExpertLayer)]

    def keep_choices(self) -> None:
        """From now on."""
        for router in self.routers:
            router.register_forward_hook(self._keep)

    def step(self) -> Tensor:
        """One optimizer step; returns the loss, still on the device."""
        x_ND = self.inputs[self._number % len(self.inputs)]
        self._number += 1
        self.choices.append([])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward_and_backward(x_ND)
        self.optimizer.step()
        return loss

    def forward_and_backward(self, x_ND: Tensor) -> Tensor:
        """The loss, after its gradients are there."""
        loss = (self.model(x_ND) - x_ND.roll(1, 0)).square().mean()
        loss.backward()
        return loss.detach()

    def _keep(self, router: nn.Module, inputs: object, output: tuple[Tensor, Tensor]) -> None:
        self.choices[-1].append(output[1].detach().clone())
