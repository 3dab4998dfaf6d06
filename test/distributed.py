"""One of the two processes of test_subclasses.py's test_distributed: distributed.py RENDEZVOUS_FILE RANK."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.testing import assert_close

import torchsquare

rendezvous, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
x = torch.randn(4, 6)


def run(f, local_or_whole, placement):
    """Result, its placement, and the gradient of the input."""
    if placement == Partial():
        leaf = DTensor.from_local(local_or_whole, mesh, [placement], run_check=False).requires_grad_()
    else:
        leaf = distribute_tensor(local_or_whole, mesh, [placement]).requires_grad_()
    y = f(leaf)
    y.sin().sum().backward()
    return y.placements, y.full_tensor(), leaf.grad.placements, leaf.grad.full_tensor()


for placement in (Shard(0), Shard(1), Replicate(), Partial()):
    ours, theirs = (run(f, x, placement) for f in (torchsquare.square, torch.square))
    assert ours[0] == theirs[0], (placement, ours[0], theirs[0])
    assert_close(ours[1], theirs[1])
    assert_close(ours[3], theirs[3])
    whole = 2 * x if placement == Partial() else x  # each process holds a summand
    assert_close(ours[1], whole.square())

dist.barrier()
dist.destroy_process_group()
print("OK")
