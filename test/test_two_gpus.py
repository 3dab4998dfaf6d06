"""One process, two GPUs: the device guard, a graph over both, threads on both. Two processes: test_distributed.py."""

import unittest

import torch
from common import TestCase, backward_formula, error_of, gradients, make, square, square_backward
from test_concurrency import THREADS, count_wrong_calls_of_threads
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests


@unittest.skipIf(torch.cuda.device_count() < 2, "needs two GPUs")
@instantiate_parametrized_tests
class TestTwoGPUs(TestCase):
    @parametrize("step", [1, 2])  # 2: the way through TensorIterator
    def test_device_guard(self, step):
        """With another device current: runs where the input is, on the stream that is current there."""
        values = make((1 << 20,), torch.float64, "cuda:1")
        stream = torch.cuda.Stream("cuda:1")

        def run(square, square_backward):
            x = torch.zeros_like(values)[::step]
            torch.cuda.synchronize("cuda:1")
            with torch.cuda.stream(stream):
                torch.cuda._sleep(50_000_000)  # a kernel on another stream would read the zeros before the copy
                x.copy_(values[::step]).requires_grad_()
                with torch.cuda.device(0):
                    y = square(x)
                    (grad,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
                    (grad_of_grad,) = torch.autograd.grad(grad.sum(), x)
                    direct = square_backward(y, x)  # autograd makes the device of a node's tensors current
                    self.assertEqual(torch.cuda.current_device(), 0)
            stream.synchronize()
            return [(tensor.detach(), str(tensor.device)) for tensor in (y, grad, grad_of_grad, direct)]

        run(square, square_backward)  # loads the kernels: that may wait for the device, and so for the sleep
        expected = run(torch.square, backward_formula)
        self.assertEqual(run(square, square_backward), expected, exact_stride=True)

    def test_current_device_after_an_error(self):
        x = torch.ones(3, dtype=torch.uint16, device="cuda:1")
        with torch.cuda.device(0):
            for call in (lambda: square(x), lambda: square_backward(x, x)):
                self.assertRaisesRegex(NotImplementedError, "not implemented for 'UInt16'", call)
                self.assertEqual(torch.cuda.current_device(), 0)

    def test_operands_of_square_backward_on_both(self):
        text = "torchsquare::square_backward: expected grad_output and self to have the same device, got {} and {}"
        for devices in (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")):
            operands = [torch.ones(3, device=device) for device in devices]
            self.assertEqual(error_of(square_backward, *operands), ("RuntimeError", text.format(*devices)))

    def test_graph_over_both(self):
        x = make((1001,), torch.float64, "cuda:0")
        self.assertMatchesSquare(lambda f: gradients(lambda x: f(f(x).to("cuda:1")), x))

    def test_threads_on_both(self):
        self.assertEqual(count_wrong_calls_of_threads(["cuda:0", "cuda:1"] * (THREADS // 2)), [0] * THREADS)


if __name__ == "__main__":
    run_tests()
