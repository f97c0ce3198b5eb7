"""Optimizer spans and the steps they imply in unmodified scripts."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.trace_hooks.tiny_models import TinyGPT, batch, loss_of, tracing
from trace_hooks.sources.training import optimizer as optimizer_source
from trace_hooks.sources.training.autostep import AutoSteps


class Borders:
    """Steps that only keep a list of their calls."""

    explicit = False

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def begin(self, number=None, at_ns=None) -> None:
        self.calls.append(("begin", at_ns))

    def end(self, at_ns=None) -> None:
        self.calls.append(("end", at_ns))

    def forget(self) -> None:
        self.calls.append(("forget", 0))

    @property
    def num_ended(self) -> int:
        return sum(what == "end" for what, _ in self.calls)


def stepped(*optimizers: int) -> Borders:
    """Calls when these optimizers step in turn, ten ns apart, each taking one."""
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on()
    for index, optimizer in enumerate(optimizers):
        auto.optimizer_begins(optimizer, 10 * index)
        auto.optimizer_ended(optimizer, 10 * index + 1)
    return borders


def test_one_optimizer_is_one_step_each_time():
    assert stepped(1, 1, 1).calls == [
        ("begin", 0),
        ("end", 1),
        ("begin", 1),
        ("end", 11),
        ("begin", 11),
        ("end", 21),
    ]


def test_the_first_step_is_known_to_have_ended_only_when_the_second_begins():
    assert stepped(1).num_ended == 0
    assert stepped(1, 1).num_ended == 2


def test_two_optimizers_are_one_step_a_cycle():
    calls = stepped(1, 2, 1, 2, 1, 2).calls
    assert [ns for what, ns in calls if what == "end"] == [11, 31, 51]


class Engine:
    """Steps its one optimizer once for each group of parameters, as DeepSpeed's ZeRO does."""

    def __init__(self, model: nn.Module) -> None:
        self.optimizer = torch.optim.AdamW(
            [{"params": list(part.parameters())} for part in (model.layers, model.head)], lr=1e-2
        )

    def step(self) -> None:
        groups = self.optimizer.param_groups
        for group in groups:
            self.optimizer.param_groups = [group]
            self.optimizer.step()
        self.optimizer.param_groups = groups
        self.optimizer.zero_grad()


def test_an_optimizer_that_steps_once_for_each_group_of_parameters_is_one_step():
    with tracing("modules", "optimizer") as traced:
        model = TinyGPT()
        engine = Engine(model)
        for step in range(5):
            loss_of(model, batch(step)).backward()
            engine.step()
        steps, spans = traced.steps, traced.spans("optimizer")
        assert (len(steps.begun), len(steps.ended), len(spans)) == (5, 5, 10)
        assert {span.row.step for span in spans[-2:]} == {4}
        assert all(
            end >= span.row.end_ns for end, span in zip(steps.ended, spans[1::2], strict=True)
        )


def test_many_optimizers_inside_the_backward_pass_are_one_step_an_iteration():
    one_iteration = list(range(100))
    assert stepped(*one_iteration * 4).num_ended == 4


def test_the_first_step_ends_at_once_when_every_optimizer_has_stepped():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on(lambda: {1, 2})
    for optimizer in (1, 2):
        auto.optimizer_begins(optimizer, 10 * optimizer)
        auto.optimizer_ended(optimizer, 10 * optimizer + 1)
    assert borders.calls == [("begin", 10), ("end", 21)]


def test_an_optimizer_that_stepped_is_there_though_a_search_did_not_find_it():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on(lambda: set())
    auto.optimizer_begins(1, 0)
    auto.optimizer_ended(1, 1)
    assert borders.num_ended == 1


def test_another_order_is_the_same_cycle():
    assert stepped(1, 2, 2, 1, 1, 2).num_ended == 3


def test_an_optimizer_that_sits_out_once_does_not_derail_the_count():
    # a GradScaler skips optimizer 2 in the third iteration
    assert stepped(1, 2, 1, 2, 1, 1, 2, 1, 2).num_ended == 5


def test_an_optimizer_that_is_gone_is_forgotten_when_missed_twice():
    borders = stepped(1, 2, 1, 2, 1, 1, 1, 1)
    ends = [ns for what, ns in borders.calls if what == "end"]
    assert ends == [11, 31, 41, 51, 61, 71]  # the last at once, not in hindsight


def test_a_new_optimizer_replaces_the_old_one():
    assert stepped(1, 1, 1, 5, 5, 5).num_ended == 6


def test_activity_begins_the_first_step_and_steps_are_contiguous():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.activity(3)  # not switched on
    auto.switch_on()
    auto.activity(5)
    auto.activity(6)
    for ns in (10, 20):
        auto.optimizer_begins(1, ns)
        auto.optimizer_ended(1, ns + 1)
    auto.activity(30)
    assert borders.calls == [("begin", 5), ("end", 11), ("begin", 11), ("end", 21), ("begin", 21)]


def test_what_follows_the_last_step_is_no_step():
    borders = stepped(1, 1)
    auto = AutoSteps.shared(borders)
    auto.activity(30)  # an evaluation
    auto.switch_off()
    assert borders.calls[-2:] == [("begin", 11), ("forget", 0)]


def test_a_first_step_that_was_not_known_to_have_ended_ends_with_its_optimizer():
    borders = stepped(1, 2)
    AutoSteps.shared(borders).switch_off()
    assert borders.calls == [("begin", 0), ("end", 11)]


def test_explicit_steps_switch_it_off():
    borders = Borders()
    borders.explicit = True
    auto = AutoSteps.shared(borders)
    auto.switch_on()
    auto.activity(1)
    auto.optimizer_begins(1, 2)
    auto.optimizer_ended(1, 3)
    assert borders.calls == []


# --- with real optimizers


def test_training_with_gradient_accumulation_counts_optimizer_steps(monkeypatch):
    model = TinyGPT()
    optimizer = torch.optim.AdamW(model.parameters())
    monkeypatch.setattr(optimizer_source, "live_optimizers", lambda: {id(optimizer)})
    with tracing("modules", "optimizer") as traced:
        traced.watch(model)
        for iteration in range(6):
            loss_of(model, batch(iteration)).backward()
            if iteration % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
        assert len(traced.steps.ended) == 2
        forwards = traced.spans("forward")
        assert [span.row.step for span in forwards] == [0] * 27 + [1] * 27
        first = min(span.row.begin_ns for span in forwards)
        assert traced.steps.begun[0] <= first < traced.steps.begun[0] + 1_000_000_000


def test_the_optimizer_of_each_parameter_stepping_inside_the_backward_pass():
    with tracing("modules", "optimizer") as traced:
        model = TinyGPT()
        for parameter in model.parameters():
            optimizer = torch.optim.SGD([parameter])

            def step(parameter, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(step)
        for iteration in range(3):
            loss_of(model, batch(iteration)).backward()
        assert len(traced.steps.ended) == 3
        num_parameters = len(list(model.parameters()))
        assert len(traced.spans("optimizer")) == 3 * num_parameters
        assert len([s for s in traced.spans("backward") if s.name == "layers.1"]) == 3


def test_a_grad_scaler_that_skips_does_not_derail_the_steps():
    with tracing("optimizer") as traced:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([parameter])
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for iteration in range(4):
            factor = float("inf") if iteration == 1 else 1.0
            scaler.scale((parameter * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert len(traced.steps.ended) == 3
        assert len(traced.spans("optimizer")) == 3


def test_a_fetched_batch_begins_the_step(monkeypatch):
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    # other tests may have left optimizers behind
    monkeypatch.setattr(optimizer_source, "live_optimizers", lambda: {id(optimizer)})
    with tracing("optimizer", "data") as traced:
        for (x,) in DataLoader(TensorDataset(torch.ones(3, 1)), batch_size=1):
            model(x).sum().backward()
            optimizer.step()
        assert len(traced.steps.begun) == len(traced.steps.ended) == 3
        assert [span.row.step for span in traced.spans("data_fetch")] == [0, 1, 2]
        assert traced.steps.begun[0] == traced.spans("data_fetch")[0].row.begin_ns


def test_a_step_of_a_framework_ends_when_that_is_done_with_it():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on()
    for begin in (0, 100):
        auto.hold()
        for group in (1, 2):  # one optimizer, stepped once for each group of parameters
            auto.optimizer_begins(7, begin + 10 * group, group)
            auto.optimizer_ended(7, begin + 10 * group + 1)
        auto.release(begin + 50, is_over=True)
    assert borders.calls == [("begin", 10), ("end", 50), ("begin", 50), ("end", 150)]


def test_a_step_that_a_framework_skips_ends_as_well():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on()
    for at in (10, 110):
        auto.activity(at)
        auto.hold()
        auto.release(at + 40, is_over=True)
    assert borders.calls == [("begin", 10), ("end", 50), ("begin", 50), ("end", 150)]


def test_frameworks_whose_optimizers_take_turns_make_one_step():
    borders = Borders()
    auto = AutoSteps.shared(borders)
    auto.switch_on(lambda: {1, 2})
    for at, optimizer in ((0, 1), (10, 2), (20, 1), (30, 2)):
        auto.hold()
        auto.optimizer_begins(optimizer, at)
        auto.optimizer_ended(optimizer, at + 1)
        auto.release(at + 5, is_over=False)
    assert [ns for what, ns in borders.calls if what == "end"] == [15, 35]


def test_clipping_of_gradients_is_seen_and_changes_nothing(monkeypatch):
    model = TinyGPT()
    originals = nn.utils.clip_grad_norm_, nn.utils.clip_grad.clip_grad_norm_
    with tracing("optimizer", "modules") as traced:
        loss_of(model, batch(0)).backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
        clipped = [p.grad.clone() for p in model.parameters()]
        nn.utils.clip_grad.clip_grad_value_(model.parameters(), 0.01)
        with pytest.raises(TypeError):
            nn.utils.clip_grad_norm_(model.parameters())
    assert (nn.utils.clip_grad_norm_, nn.utils.clip_grad.clip_grad_norm_) == originals
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    assert torch.equal(nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1), norm)
    assert all(map(torch.equal, [p.grad for p in model.parameters()], clipped))
    names = [span.name for span in traced.spans() if span.kind == "host"]
    assert names == ["clip_grad_norm_", "clip_grad_value_", "clip_grad_norm_"]


@pytest.mark.long
def test_clipping_in_a_compiled_step_leaves_its_graph_whole():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    with tracing("optimizer") as traced:
        step = torch.compile(
            lambda: nn.utils.clip_grad_norm_([weight], 1.0), backend="eager", fullgraph=True
        )
        assert step().item() == pytest.approx(3**0.5)
    assert traced.spans("host") == []
