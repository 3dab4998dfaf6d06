"""What each of the two processes of test_distributed.py runs: distributed.py BACKEND RENDEZVOUS_FILE RANK."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import torchsquare


def check_dtensor(mesh: DeviceMesh) -> None:
    """Shard and Replicate are kept, Partial is reduced before it is squared."""
    torch.manual_seed(0)
    x = torch.randn(4, 6, device=mesh.device_type)

    def run(square, placement):
        """The result and the gradient of the input, as whole tensors, and the placements of both."""
        if placement == Partial():
            leaf = DTensor.from_local(x.clone(), mesh, [placement], run_check=False).requires_grad_()
        else:
            leaf = distribute_tensor(x.clone(), mesh, [placement]).requires_grad_()
        y = square(leaf)
        y.sin().sum().backward()
        return y.full_tensor(), leaf.grad.full_tensor(), (y.placements, leaf.grad.placements)

    for placement in (Shard(0), Shard(1), Replicate(), Partial()):
        # The values are compared with those of the whole tensor, which no collective has touched.
        whole = (2 * x if placement == Partial() else x.clone()).requires_grad_()  # each process holds a summand
        expected = torch.square(whole)
        expected.sin().sum().backward()
        result, result_grad, placements = run(torchsquare.square, placement)
        assert_close(result, expected)
        assert_close(result_grad, whole.grad)
        of_square = run(torch.square, placement)[2]
        # The one difference, which torch 2.11 does not have: for Partial, torch.square's gradient is already reduced.
        is_that = placement == Partial() and placements == (of_square[0], (Partial(),))
        assert is_that or placements == of_square, (placement, placements)


class SquaredReLU(torch.nn.Module):
    def __init__(self, square):
        super().__init__()
        self.square = square

    def forward(self, x):
        return self.square(x.relu())


def data_parallel(model, mesh):
    return DistributedDataParallel(model)


def fully_sharded(model, mesh):
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model


def check_training(parallelize, mesh: DeviceMesh) -> None:
    def train(square):
        """The losses of 20 steps and the parameters after them, as whole tensors."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), SquaredReLU(square), torch.nn.Linear(16, 1))
        model = parallelize(model.to(mesh.device_type), mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1 + mesh.get_rank())  # other data in each process
        losses = []
        for _ in range(20):
            x = torch.randn(32, 8, device=mesh.device_type)
            loss = square(model(x) - x.sin().sum(1, keepdim=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]

    assert_close(train(torchsquare.square), train(torch.square))


def main(backend: str, rendezvous: str, rank: int) -> None:
    device = None
    if backend == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=2, device_id=device)
    mesh = init_device_mesh("cuda" if device else "cpu", (2,))
    check_dtensor(mesh)
    check_training(data_parallel, mesh)
    check_training(fully_sharded, mesh)
    dist.barrier()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    os._exit(0)  # without tearing torch down, where its gloo aborts now and then: "terminate called", after all is done
