"""Training: the optimizer, batch normalization, elastic state and checkpoints, against one process that has
all ranks' batches."""

import copy
import os
import pathlib
import sys
import warnings

import torch
from _checks import raises, run

import colla.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FILES = pathlib.Path(os.environ["TEST_FILES"])
torch.set_default_dtype(torch.float64)


def model_of(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def batch_of(step, rank, rows=4):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(rows, 6, generator=generator), torch.randn(rows, 3, generator=generator)


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def alone(make, steps=4, passes=1, scale=1.0):
    """What one process makes of the average of all ranks' losses."""
    model = model_of()
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            losses = [loss_of(model, batch_of(step * passes + part, rank)) for rank in range(SIZE)]
            (sum(losses) / SIZE * scale).backward()
        optimizer.step()
    return model


def together(make, steps=4, passes=1, **arguments):
    model = model_of(RANK)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = make(model.parameters())
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), backward_passes_per_step=passes, **arguments
    )
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            loss_of(model, batch_of(step * passes + part, RANK)).backward()
        optimizer.step()
    return model


def assert_same(a, b, **tolerances):
    for (name, mine), other in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other, msg=lambda text: f"{name}: {text}", **tolerances)


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(params):
    return torch.optim.Adam(params, lr=0.01)


def check_optimizer():
    for make in (sgd, adam):
        reference = alone(make)
        assert_same(together(make), reference)
        assert_same(together(make, op=hvd.Average, gradient_predivide_factor=2.0), reference)
        assert_same(together(make, groups=2), reference)
        assert_same(together(make, compression=hvd.Compression.none), reference)
        assert_same(together(make, compression=hvd.Compression.fp16), reference, rtol=0.05, atol=0.02)
    assert_same(together(sgd, op=hvd.Sum), alone(sgd, scale=SIZE))
    assert_same(together(sgd, passes=3), alone(sgd, passes=3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_same(together(sgd, num_groups=3), alone(sgd))
    assert SIZE == 1 or any("groups" in str(warning.message) for warning in caught)


def check_optimizer_is_like_its_own():
    model = model_of()
    plain = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loss_of(model, batch_of(0, RANK)).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.25

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, batch_of(1, RANK))
        loss.backward()
        return loss

    assert optimizer.step(closure) > 0
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.full((2,), float(RANK)))]})
    extra = optimizer.param_groups[1]["params"][0]
    (extra * RANK).sum().backward()
    optimizer.step()
    if SIZE > 1:
        torch.testing.assert_close(extra.grad, torch.full((2,), (SIZE - 1) / 2))


def check_listed_groups():
    model = model_of()
    groups = [[model[0].weight, model[2].bias]]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=groups)
    reference = alone(sgd, steps=1)
    optimizer.zero_grad()
    loss_of(model, batch_of(0, RANK)).backward()
    optimizer.step()
    assert_same(model, reference)
    for bad in (0, -1, "two", [[1]], [[model[0].bias], [model[0].bias]]):
        with raises((ValueError, TypeError)):
            hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=bad)


def check_clipping():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    loss_of(model, batch_of(0, RANK)).backward()
    optimizer.synchronize()
    reference = model_of()
    (sum(loss_of(reference, batch_of(0, rank)) for rank in range(SIZE)) / SIZE).backward()
    for mine, other in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(mine.grad, other.grad)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    clipped = [param.grad.clone() for param in model.parameters()]
    with optimizer.skip_synchronize():
        optimizer.step()
    assert all(torch.equal(param.grad, was) for param, was in zip(model.parameters(), clipped))
    if SIZE == 1:
        return
    loss_of(model, batch_of(1, RANK)).backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert len(caught) == 1 and "optimizer.skip_synchronize()" in str(caught[0].message)


def check_misuse():
    model = model_of()
    named = list(model.named_parameters())
    with raises(ValueError, "twice"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named + named[:1])
    with raises(ValueError, "lacks 3"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named[:1])
    with raises(ValueError, "pairs"):
        hvd.DistributedOptimizer(sgd(model.parameters()), list(model.parameters()))
    with raises(ValueError, "above 0"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named, backward_passes_per_step=0)
    with raises(ValueError, "Average"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named, op=hvd.Sum, gradient_predivide_factor=2.0)
    if SIZE == 1:
        return
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named)
    loss_of(model, batch_of(0, RANK)).backward()
    with raises(AssertionError, "zero_grad"):
        optimizer.zero_grad()
    with raises(AssertionError, "backward_passes_per_step"):
        loss_of(model, batch_of(0, RANK)).backward()
    optimizer.step()
    optimizer.zero_grad()


def check_unused_parameters():
    """A parameter that only some ranks use is reduced with zeros of the others."""
    first, second = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    model = torch.nn.ModuleList([first, second])
    hvd.broadcast_parameters(model.state_dict(), 0)
    for groups in (None, 1):
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), groups=groups
        )
        before = first.bias.item(), second.bias.item()
        optimizer.zero_grad()
        (first if RANK == 0 else second)(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert abs(before[0] - first.bias.item() - 1 / SIZE) < 1e-12
        assert abs(before[1] - second.bias.item() - (SIZE - 1) / SIZE) < 1e-12


def check_sparse_gradients():
    for sparse_as_dense in (False, True):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=True)
        reference = copy.deepcopy(table)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), sparse_as_dense=sparse_as_dense
        )
        for step in range(2):
            optimizer.zero_grad()
            # In the second step rank 0 looks nothing up.
            if step == 0 or RANK > 0:
                table(torch.tensor([RANK, 5, 5])).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for rank in range(SIZE):
                    if step == 0 or rank > 0:
                        for row in (rank, 5, 5):
                            reference.weight[row] -= 1 / SIZE
            torch.testing.assert_close(table.weight, reference.weight)


def check_process_set():
    if SIZE == 1:
        return
    some = hvd.add_process_set([0])
    rest = hvd.add_process_set(range(1, SIZE))
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), process_set=rest)
    loss_of(model, batch_of(0, RANK)).backward()
    optimizer.step()
    weights = hvd.allgather(model[0].weight.detach().unsqueeze(0))
    assert not torch.equal(weights[0], weights[1])
    assert all(torch.equal(weights[1], other) for other in weights[2:])
    hvd.remove_process_set(some)
    hvd.remove_process_set(rest)


def check_adasum():
    if SIZE & (SIZE - 1):
        return
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), op=hvd.Adasum)
    reference = model_of()
    plain = sgd(reference.parameters())
    for step in range(3):
        # Equal steps of all ranks combine to that step.
        for one, other in ((model, optimizer), (reference, plain)):
            other.zero_grad()
            loss_of(one, batch_of(step, 0)).backward()
            other.step()
    assert_same(model, reference)
    if SIZE > 1:
        with raises(AssertionError, "Adasum"):
            optimizer.skip_synchronize()


def check_optimizer_state():
    for make in (sgd, adam):
        model = model_of(RANK)
        optimizer = make(model.parameters())
        if RANK == 0:
            loss_of(model, batch_of(0, 0)).backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.123
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert optimizer.param_groups[0]["lr"] == 0.123
        states = hvd.allgather_object(optimizer.state_dict()["state"])
        for state in states:
            assert state.keys() == states[0].keys() and len(state) == 4
            for number, slots in state.items():
                for slot, value in slots.items():
                    assert type(value) is type(states[0][number][slot])
                    assert not torch.is_tensor(value) or torch.equal(value, states[0][number][slot])
    with raises(ValueError, "LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0)


def check_batch_norm():
    """Ranks have batches of different sizes."""
    for shape in ((), (5,), (4, 3)):
        for momentum, affine in ((0.1, True), (None, True), (0.1, False)):
            torch.manual_seed(0)
            whole = [torch.randn(rank + 2, 3, *shape) for rank in range(SIZE)]
            plain = {0: torch.nn.BatchNorm1d, 1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm2d}[len(shape)]
            reference = plain(3, momentum=momentum, affine=affine)
            layer = hvd.SyncBatchNorm(3, momentum=momentum, affine=affine)
            if affine:
                with torch.no_grad():
                    for module in (reference, layer):
                        module.weight.copy_(torch.tensor([0.5, 1.0, 2.0]))
                        module.bias.copy_(torch.tensor([0.1, -0.1, 0.0]))
            for _ in range(2):
                inputs = torch.cat(whole).requires_grad_()
                mine = whole[RANK].clone().requires_grad_()
                expected = reference(inputs)
                output = layer(mine)
                first = sum(len(part) for part in whole[:RANK])
                torch.testing.assert_close(output, expected[first : first + len(mine)])
                (expected**3).sum().backward()
                (output**3).sum().backward()
                torch.testing.assert_close(mine.grad, inputs.grad[first : first + len(mine)])
            torch.testing.assert_close(layer.running_mean, reference.running_mean)
            torch.testing.assert_close(layer.running_var, reference.running_var)
            assert layer.num_batches_tracked == 2
            if affine:
                torch.testing.assert_close(hvd.allreduce(layer.weight.grad, op=hvd.Sum), reference.weight.grad)
                torch.testing.assert_close(hvd.allreduce(layer.bias.grad, op=hvd.Sum), reference.bias.grad)
            torch.testing.assert_close(layer.eval()(whole[0]), reference.eval()(whole[0]))
    with raises(ValueError, "2 dimensions"):
        layer(torch.ones(3))


def check_elastic():
    model = model_of(RANK)
    optimizer = hvd.DistributedOptimizer(adam(model.parameters()), model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(list(range(4 * SIZE)), shuffle=False)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=RANK, seen=[])
    resets = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    failures = iter(["error", "hosts"])

    @hvd.elastic.run
    def train(state, word):
        if not resets:
            assert state.batch == 0
            assert_same(state.model, model_of(0))
        if len(resets) == 1:
            # The step that was not committed has not been made.
            assert state.batch == 1 and sampler.processed_num == 2 * SIZE
            assert sorted(hvd.allgather(torch.tensor(list(sampler))).tolist()) == list(range(2 * SIZE, 4 * SIZE))
        if len(resets) == 2:
            assert state.batch == 2
            return word
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(state.model, batch_of(state.batch, RANK)).backward()
            optimizer.step()
            state.batch += 1
            if state.batch == 1:
                sampler.record_batch(0, 2)
                state.commit()
                kept = copy.deepcopy(model)
            what = next(failures) if state.batch == 2 else ""
            if what == "error":
                assert_raises_everywhere(kept)
            if what == "hosts":
                raise hvd.HostsUpdatedInterrupt(False)

    def assert_raises_everywhere(kept):
        raise hvd.HorovodInternalError("a rank was lost")

    # The second time, what was done is kept: hosts that change are no failure.
    assert train(state, "over") == "over"
    assert resets == [SIZE, SIZE]
    state.on_hosts_updated(1, hvd.elastic.HostUpdateResult.added)
    with raises(hvd.HostsUpdatedInterrupt):
        state.commit()


def check_elastic_gives_up():
    state = hvd.elastic.TorchState(model_of(), batch=0)
    starts = []

    @hvd.elastic.run
    def train(state, commits):
        starts.append(state.batch)
        if state.batch < commits:
            state.batch += 1
            state.commit()
        # Ranks bring what does not fit together: this fails whenever it is tried.
        hvd.allreduce(torch.ones(RANK + 1), name="uneven")

    with raises(hvd.HorovodInternalError, "failed 3 times without a commit in between, the last time with: "):
        train(state, 0)
    assert starts == [0, 0, 0]
    # Progress is what counts: not failures in all.
    starts.clear()
    with raises(hvd.HorovodInternalError, "uneven"):
        train(state, 4)
    assert starts == [0, 1, 2, 3, 4, 4]
    hvd.barrier()


def check_checkpoints():
    for make, name in ((sgd, "sgd"), (adam, "adam")):
        model = torch.nn.Sequential(model_of(), torch.nn.BatchNorm1d(3))
        optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters())

        def steps(model, optimizer, first, last):
            for step in range(first, last):
                optimizer.zero_grad()
                loss_of(model, batch_of(step, RANK)).backward()
                optimizer.step()

        directory = FILES / name
        steps(model, optimizer, 0, 2)
        optimizer.param_groups[0]["lr"] /= 2
        path = hvd.save_checkpoint(directory, model, optimizer, 2, epoch=1, samples=7, extra={"who": "me"})
        assert path == str(directory / "step-00000002")
        hvd.barrier()
        steps(model, optimizer, 2, 4)
        hvd.save_checkpoint(directory, model, optimizer, 4)
        hvd.barrier()

        again = torch.nn.Sequential(model_of(RANK + 1), torch.nn.BatchNorm1d(3))
        other = hvd.DistributedOptimizer(make(again.parameters()), again.named_parameters())
        info = hvd.load_checkpoint(directory, again, other, 2)
        assert (info.step, info.epoch, info.samples, info.extra) == (2, 1, 7, {"who": "me"})
        steps(again, other, 2, 4)
        # Buffers of batch normalization are a rank's own; rank 0's are saved.
        if RANK == 0:
            for mine, expected in zip(again.state_dict().values(), model.state_dict().values()):
                assert torch.equal(mine, expected)
        hvd.save_checkpoint(FILES / f"{name}-again", again, other, 4)
        assert hvd.load_checkpoint(directory, again).step == 4
        with raises(RuntimeError, "Missing key"):
            hvd.load_checkpoint(directory, torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.BatchNorm1d(3)))
    with raises(FileNotFoundError):
        hvd.load_checkpoint(FILES / "nowhere", model)


run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print("ok", name))
sys.exit(0)
