"""Gradients of any order and in forward mode, the autograd graph, and saved tensors, against torch.square."""

import torch
from common import LAYOUTS, TestCase, gradients, instantiate, make, square, square_backward
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.testing._internal.common_utils import parametrize, run_tests
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


class CountCalls(TorchDispatchMode):
    """Counts the kernel calls of each operator below autograd."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func] = self.calls.get(func, 0) + 1
        return func(*args, **(kwargs or {}))

    def count(self, op) -> int:
        return self.calls.get(op.default, 0)


class TestAutograd(TestCase):
    @parametrize("dtype", [torch.float64, torch.complex128])
    @parametrize("layout", ["contiguous", "permuted", "every_second", "padded_rows"])
    def test_gradcheck(self, device, dtype, layout):
        def random():
            return LAYOUTS[layout](lambda shape: make(shape, dtype, device))[:1, :2, :2, :3].detach().requires_grad_()

        modes = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
        x, g = random(), random()
        gradcheck(square, (x,), check_undefined_grad=True, **modes)
        gradcheck(square_backward, (g, x), check_undefined_grad=True, **modes)
        second = {"check_fwd_over_rev": True, "check_rev_over_rev": True, "check_batched_grad": True}
        gradgradcheck(square, (x,), **second)
        gradgradcheck(square_backward, (g, x), **second)

    @parametrize("dtype", [torch.float64, torch.complex128])
    def test_derivatives(self, device, dtype):
        data = make((5,), dtype, device)

        def derivatives(f):
            x = data.clone().requires_grad_()
            results = [f(x)]
            for _ in range(3):
                results += torch.autograd.grad(results[-1].abs().sum(), x, create_graph=True)
            return results

        self.assertMatchesSquare(derivatives)

    def test_graph_node(self, device):
        x = make((3,), torch.float32, device).requires_grad_()
        self.assertIn("SquareFunction", square(x).grad_fn.name())
        self.assertIn("SquareBackwardFunction", square_backward(x, x).grad_fn.name())
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertIsNone(square(x).grad_fn)
                self.assertIsNone(square_backward(x, x).grad_fn)
        self.assertIsNone(square(x.detach()).grad_fn)

        def number_of_nodes(call):
            """How many nodes the call makes, also where it throws them away."""
            before = torch.autograd._get_sequence_nr()
            call()
            return torch.autograd._get_sequence_nr() - before

        self.assertEqual(number_of_nodes(lambda: square(x)), 1)
        self.assertEqual(number_of_nodes(lambda: square_backward(x, x)), 1)
        with torch.no_grad():
            self.assertEqual(number_of_nodes(lambda: square(x)), 0)
            self.assertEqual(number_of_nodes(lambda: square_backward(x, x)), 0)
        self.assertFalse(square(torch.ones(3, dtype=torch.int64, device=device)).requires_grad)

    def test_gradients_nobody_asked_for(self, device):
        g = make((3,), torch.float32, device)
        for wants_g, wants_x in ((True, False), (False, True), (True, True)):
            a, b = g.clone().requires_grad_(wants_g), g.clone().requires_grad_(wants_x)
            y = square_backward(a, b)
            with CountCalls() as counter:
                torch.autograd.grad(y.sum(), [t for t in (a, b) if t.requires_grad])
            self.assertEqual(counter.count(square_backward), wants_g + wants_x)
        x = g.clone().requires_grad_()
        with CountCalls() as counter:
            y = square(x)
            torch.autograd.grad(y.sum(), x)
        self.assertEqual((counter.count(square), counter.count(square_backward)), (1, 1))

    def test_undefined_gradient(self, device):
        class NoGradient(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return None

        def run(f):
            x = torch.ones(3, device=device, requires_grad=True)
            return torch.autograd.grad(NoGradient.apply(f(x)).sum(), x, allow_unused=True)

        self.assertEqual(run(square), run(torch.square))
        self.assertEqual(run(square), (None,))
        self.assertEqual(run(lambda x: square_backward(x, x)), (None,))

    def test_forward_mode(self, device):
        for dtype in (torch.float64, torch.complex128):
            x, t = make((4,), dtype, device), make((4,), dtype, device)

            def run(f, x=x, t=t):
                with forward_ad.dual_level():
                    return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t)))

            def forward_over_reverse(f, x=x, t=t):
                with forward_ad.dual_level():
                    dual = forward_ad.make_dual(x.detach().requires_grad_(), t)
                    (grad,) = torch.autograd.grad(f(dual).abs().sum(), dual)
                    return forward_ad.unpack_dual(grad)

            self.assertMatchesSquare(lambda f: tuple(run(f)))
            self.assertMatchesSquare(lambda f: tuple(forward_over_reverse(f)))
            with torch.no_grad():
                self.assertMatchesSquare(lambda f: tuple(run(f)))

    def test_batched_gradients(self, device):
        x = make((4,), torch.float64, device).requires_grad_()
        batch = make((7, 4), torch.float64, device)
        self.assertMatchesSquare(lambda f: torch.autograd.grad(f(x), x, batch, is_grads_batched=True))

    def test_modified_input(self, device):
        def run(f):
            x = torch.ones(3, device=device, requires_grad=True).clone()
            y = f(x)
            x.add_(1)
            y.sum().backward()

        for f in (square, torch.square):
            self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", lambda f=f: run(f))

    def test_saved_tensor_hooks(self, device):
        def run(f):
            packed = []

            def pack(tensor):
                packed.append(tensor)
                return tensor.cpu()

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to(device)):
                result = gradients(f, torch.arange(4.0, device=device))
            return len(packed), result

        self.assertMatchesSquare(run)
        with torch.autograd.graph.save_on_cpu():
            self.assertMatchesSquare(lambda f: gradients(f, torch.arange(4.0, device=device)))

    def test_tensor_and_node_hooks(self, device):
        def run(f):
            x = torch.arange(4.0, device=device, requires_grad=True)
            y = f(x)
            seen = []
            y.register_hook(lambda g: g * 3)
            y.grad_fn.register_hook(lambda grad_in, grad_out: seen.append((grad_in[0], grad_out[0])))
            x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
            y.sum().backward()
            return seen

        self.assertMatchesSquare(run)

    def test_inference_mode(self, device):
        with torch.inference_mode():
            x = make((3,), torch.float32, device)
            self.assertTrue(square(x).is_inference())
        self.assertMatchesSquare(lambda f: (f(x), f(x).is_inference(), f(x).requires_grad))
        normal = make((3,), torch.float32, device).requires_grad_()
        for f in (lambda: square_backward(x, normal), lambda: x * normal):
            self.assertRaisesRegex(RuntimeError, "Inference tensors cannot be saved", f)

    @parametrize("use_reentrant", [False, True])
    def test_checkpoint(self, device, use_reentrant):
        data = make((4,), torch.float32, device)

        def run(f):
            x = data.clone().requires_grad_()
            checkpoint(lambda x: f(f(x)), x, use_reentrant=use_reentrant).sum().backward()
            return x.grad

        self.assertMatchesSquare(run)

    def test_selective_checkpoint(self, device):
        x = make((4,), torch.float32, device)
        for policy, recomputed in ((CheckpointPolicy.MUST_SAVE, 0), (CheckpointPolicy.MUST_RECOMPUTE, 1)):

            def context(policy=policy):
                return create_selective_checkpoint_contexts(
                    lambda ctx, op, *args, **kwargs: policy if op == square.default else CheckpointPolicy.MUST_SAVE
                )

            leaf = x.clone().requires_grad_()
            y = checkpoint(lambda x: square(x).sin(), leaf, use_reentrant=False, context_fn=context)
            with CountCalls() as counter:
                y.sum().backward()
            self.assertEqual(counter.count(square), recomputed)
            self.assertEqual(leaf.grad, gradients(lambda x: torch.square(x).sin(), x)[1])


instantiate(TestAutograd, globals())

if __name__ == "__main__":
    run_tests()
