"""Memory: every element of a result is written and nothing beside it, nothing is leaked, and running out is no end."""

import itertools
import os
import weakref
from pathlib import Path

import torch
from common import backward_formula, square, square_backward
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize

SENTINEL = 0xAB
DTYPES = [torch.bool, torch.int8, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128]
# Around one, two and more blocks of 128 threads, of which each computes 16 bytes of a result of 1, 2, 4, 8 or 16 bytes.
SIZES = [*range(131), *(128 * n + d for n, d in itertools.product((2, 3, 4, 8, 16, 32), (-1, 0, 1)))]
ALIGNMENTS = range(17)  # in bytes


def small_integers(numel, dtype):
    """A CPU tensor of numbers whose products are exact in every dtype."""
    values = torch.arange(numel, dtype=torch.int64) * 7 % 15 - 7
    return torch.complex(values.double(), values.roll(1).double()).to(dtype) if dtype.is_complex else values.to(dtype)


def poison(nbytes, device):
    """Fills and frees a block, which CUDA's allocator reuses for the next tensor of that size, and the CPU's may."""
    return torch.full((nbytes,), SENTINEL, dtype=torch.uint8, device=device).data_ptr()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forward_and_backward(x):
    return torch.autograd.grad(square(x).sum(), x)[0]


def allocated_bytes(device):
    return torch.cuda.memory_allocated() if torch.device(device).type == "cuda" else 0


class TestMemory(TestCase):
    @parametrize("dtype", DTYPES)
    def test_every_size_and_alignment(self, device, dtype):
        """Each result has every element right, in memory that held something else; no input is written to."""
        length = max(SIZES) + max(ALIGNMENTS)
        x_cpu, grad_cpu = small_integers(length, dtype), small_integers(length, dtype).flip(0)
        x_all, grad_all = x_cpu.to(device), grad_cpu.to(device)
        offsets = [alignment // dtype.itemsize for alignment in ALIGNMENTS if alignment % dtype.itemsize == 0]
        itemsize = torch.square(x_all[:1]).itemsize
        for size, offset in itertools.product(SIZES, offsets):
            of_x = slice(offset, offset + size)
            of_grad = slice(offset * 3 % len(offsets), offset * 3 % len(offsets) + size)
            poison(size * itemsize, device)
            y = square(x_all[of_x])
            self.assertTrue(torch.equal(y.cpu(), torch.square(x_cpu[of_x])), f"size {size}, offset {offset}")
            del y
            poison(size * itemsize, device)
            dx = square_backward(grad_all[of_grad], x_all[of_x])
            expected = backward_formula(grad_cpu[of_grad], x_cpu[of_x])
            self.assertTrue(torch.equal(dx.cpu(), expected), f"size {size}, {of_grad}, {of_x}")
        self.assertTrue(torch.equal(x_all.cpu(), x_cpu))
        self.assertTrue(torch.equal(grad_all.cpu(), grad_cpu))

    @parametrize("dtype", DTYPES)
    def test_strided_results_are_written_whole(self, device, dtype):
        """As above, where rows and columns are swapped, and rows left out. Multiples of 16 make whole tiles."""
        for rows, columns, step in itertools.product((1, 3, 31, 64, 128, 171), (1, 2, 16, 33, 48), (1, 2)):
            x_cpu, grad_cpu = small_integers(step * rows * columns, dtype), small_integers(rows * columns, dtype)
            x, grad = x_cpu.to(device), grad_cpu.to(device)
            x_cpu, x = (tensor.view(columns, step * rows).t()[::step] for tensor in (x_cpu, x))
            grad_cpu, grad = (tensor.view(rows, columns) for tensor in (grad_cpu, grad))
            nbytes = torch.square(x).nbytes
            poison(nbytes, device)
            self.assertTrue(torch.equal(square(x).cpu(), torch.square(x_cpu)), f"{rows} x {columns}, step {step}")
            poison(nbytes, device)
            dx = square_backward(grad, x).cpu()
            self.assertTrue(torch.equal(dx, backward_formula(grad_cpu, x_cpu)), f"{rows} x {columns}, step {step}")

    def test_nothing_is_leaked(self, device):
        """100,000 calls, after some that warm up: a leak of 32 bytes a call would show."""
        x = torch.ones(64, device=device, requires_grad=True)
        for calls in (2_000, 100_000):
            resident, allocated = resident_bytes(), allocated_bytes(device)
            for _ in range(calls):
                forward_and_backward(x)
        self.assertEqual(allocated_bytes(device), allocated)
        self.assertLess(resident_bytes() - resident, 32 * calls)

    def test_graph_frees_its_input(self, device):
        for end in ("delete", "backward"):
            x = torch.ones(3, device=device, requires_grad=True) * 2
            y = square(x)
            reference = weakref.ref(x)
            del x
            self.assertIsNotNone(reference())  # the graph needs it
            if end == "delete":
                del y
            else:
                y.sum().backward()
            self.assertIsNone(reference())

    def test_double_backward_frees_its_inputs(self, device):
        x = torch.ones(3, device=device, requires_grad=True) * 2
        grad = torch.ones(3, device=device, requires_grad=True) * 3
        dx = square_backward(grad, x)
        references = weakref.ref(x), weakref.ref(grad)
        del x, grad
        self.assertTrue(all(reference() is not None for reference in references))
        dx.sum().backward()
        self.assertTrue(all(reference() is None for reference in references))

    @parametrize("requires_grad", [False, True])
    def test_out_of_memory(self, device, requires_grad):
        """4 PiB are more than any device has, and as an expanded input they cost nothing."""
        one = torch.ones(1, device=device, requires_grad=requires_grad)
        huge = one.expand(2**50)
        error = torch.cuda.OutOfMemoryError if huge.is_cuda else RuntimeError
        allocated = allocated_bytes(device)
        for call in (lambda: torch.square(huge), lambda: square(huge), lambda: square_backward(huge, huge)):
            with self.assertRaises(error):
                call()
        self.assertEqual(allocated_bytes(device), allocated)
        x = torch.ones(3, device=device, requires_grad=True)
        self.assertEqual(forward_and_backward(x), backward_formula(torch.ones_like(x), x.detach()))


class TestGuard(TestCase):
    """What the caching allocator makes possible: it gives a freed block to the next tensor of that size."""

    @parametrize("dtype", DTYPES)
    def test_nothing_is_written_behind_a_result(self, device, dtype):
        x, grad = (small_integers(max(SIZES), dtype).to(device) for _ in range(2))
        for size in SIZES:
            for call in (lambda size=size: square(x[:size]), lambda size=size: square_backward(grad[:size], x[:size])):
                nbytes = call().nbytes
                whole_block = -(-nbytes // 512) * 512
                poisoned = poison(whole_block, device)
                result = call()
                self.assertEqual(result.data_ptr(), poisoned)
                del result
                block = torch.empty(whole_block, dtype=torch.uint8, device=device)
                self.assertEqual(block.data_ptr(), poisoned)
                self.assertTrue((block[nbytes:] == SENTINEL).all(), f"size {size}")


instantiate_device_type_tests(TestMemory, globals(), only_for=("cpu", "cuda"))
instantiate_device_type_tests(TestGuard, globals(), only_for="cuda")
