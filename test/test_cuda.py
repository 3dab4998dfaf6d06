"""What only a GPU can show: streams, CUDA graphs, autocast. Autocast runs on the CPU too."""

from collections.abc import Callable

import torch
from common import TestCase, backward_formula, gradients, instantiate, make, square, square_backward
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize, run_tests


class TestAutocast(TestCase):
    @parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_dtypes(self, device, dtype):
        device_type = torch.device(device).type
        for input_dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
            x = make((9,), input_dtype, device)

            def run(f, x=x):
                with torch.autocast(device_type, dtype):
                    inside = f(x)
                    with torch.autocast(device_type, enabled=False):
                        nested = f(x)
                return inside, nested, f(x)

            self.assertMatchesSquare(run)
            if input_dtype.is_floating_point:

                def gradient(f, x=x):
                    leaf = x.clone().requires_grad_()
                    with torch.autocast(device_type, dtype):
                        y = f(leaf).sum()
                    y.backward()
                    return leaf.grad

                self.assertMatchesSquare(gradient)

    def test_range(self, device):
        x = torch.full((5,), 300.0, dtype=torch.float16, device=device)
        with torch.autocast(torch.device(device).type):
            self.assertMatchesSquare(lambda f: f(x))
            if x.is_cuda:
                self.assertEqual(square(x), torch.square(x.float()))  # in half it would be inf

    def test_in_a_model(self, device):
        linear = torch.nn.Linear(4, 4).to(device)
        x = make((3, 4), torch.float32, device)

        def run(f):
            with torch.autocast(torch.device(device).type):
                y = linear(f(linear(x)))
            return y, *torch.autograd.grad(y.float().sum(), linear.parameters())

        self.assertMatchesSquare(run)


def count_kernels(call: Callable) -> int:
    """How many kernels the second of two calls launches."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        call()
        torch.cuda.synchronize()
    return sum("kernel" in event.name for event in profiler.events())


class TestStreams(TestCase):
    def test_side_stream(self, device):
        x = torch.zeros(1 << 20, device=device)
        gradients(square, x)  # loads the kernels: that may wait for the device, and so for the sleep
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)  # a kernel on another stream would read the zeros before the fill
            x.fill_(3.0)
            y, grad = gradients(square, x)
        stream.synchronize()
        three = torch.full_like(x, 3.0)
        self.assertEqual(y, torch.square(three))
        self.assertEqual(grad, backward_formula(torch.ones_like(three), three))

    def test_graph_capture(self, device):
        for layout in (slice(None), slice(1, None), slice(None, None, 2)):
            buffer = torch.randn(1001, device=device)
            static = buffer[layout].detach().requires_grad_()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                gradients(square, static)  # warm up outside the capture
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = square(static)
                (grad,) = torch.autograd.grad(y, static, torch.cos(y))
            for _ in range(3):
                buffer.normal_()
                graph.replay()
                expected = torch.square(static.detach())
                self.assertEqual(y.detach(), expected)
                self.assertEqual(grad, backward_formula(expected.cos(), static.detach()))

    def test_launches_nothing_on_empty_input(self, device):
        for x, kernels in ((torch.empty(0, 3, device=device), 0), (torch.ones(3, device=device), 1)):
            self.assertEqual(count_kernels(lambda x=x: square(x)), kernels)
            self.assertEqual(count_kernels(lambda x=x: square_backward(x, x)), kernels)

    def test_backward_is_one_kernel_and_one_allocation(self, device):
        x = torch.randn(1 << 20, device=device, requires_grad=True)
        y = square(x)
        g = torch.randn_like(y)

        def backward():
            torch.autograd.grad(y, x, g, retain_graph=True)

        self.assertEqual(count_kernels(backward), 1)
        torch.cuda.reset_peak_memory_stats()
        memory, allocations = torch.cuda.memory_allocated(), torch.cuda.memory_stats()["allocation.all.allocated"]
        backward()
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.allocated"] - allocations, 1)
        self.assertEqual(torch.cuda.max_memory_allocated() - memory, x.nbytes)


instantiate(TestAutocast, globals())
instantiate_device_type_tests(TestStreams, globals(), only_for="cuda")

if __name__ == "__main__":
    run_tests()
