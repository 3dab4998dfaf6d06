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
    """The result and the gradient of the input, as whole tensors, and the placement of the result."""
    if placement == Partial():
        leaf = DTensor.from_local(local_or_whole.detach(), mesh, [placement], run_check=False).requires_grad_()
    else:
        leaf = distribute_tensor(local_or_whole.detach(), mesh, [placement]).requires_grad_()
    y = f(leaf)
    y.sin().sum().backward()
    return y.full_tensor(), leaf.grad.full_tensor(), y.placements


for placement in (Shard(0), Shard(1), Replicate(), Partial()):
    # The values of torch.square are those of the whole tensor: of a Partial on gloo, they are at times wrong.
    whole = (2 * x if placement == Partial() else x.clone()).requires_grad_()  # each process holds a summand
    expected = torch.square(whole)
    expected.sin().sum().backward()
    result, result_grad, placements = run(torchsquare.square, x, placement)
    assert_close(result, expected)
    assert_close(result_grad, whole.grad)
    assert placements == run(torch.square, x, placement)[2], (placement, placements)

dist.barrier()
dist.destroy_process_group()
print("OK")
