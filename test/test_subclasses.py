"""Tensor subclasses, layouts and backends for which there is no kernel of ours, against torch.square."""

import subprocess
import sys

import torch
from common import TestCase, backward_formula, instantiate, make, square, square_backward
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.two_tensor import TwoTensor


class Logged(torch.Tensor):
    """A __torch_function__ subclass that names the functions it sees."""

    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class TestSubclasses(TestCase):
    def test_torch_function(self, device):
        x = make((3,), torch.float32, device).as_subclass(Logged)
        self.assertMatchesSquare(lambda f: (f(x), type(f(x)).__name__))
        Logged.seen.clear()
        square(x)
        self.assertEqual(len(Logged.seen), 1)
        self.assertIn("square", Logged.seen[0])
        leaf = make((3,), torch.float32, device).requires_grad_()
        y = square(leaf.as_subclass(Logged))
        y.sum().backward()
        self.assertEqual(leaf.grad, backward_formula(torch.ones_like(leaf), leaf.detach()))

    def test_torch_dispatch(self, device):
        def run(f):
            x = TwoTensor(a.clone(), b.clone()).requires_grad_()
            y = f(x)
            y.sum().backward()
            return [t.detach() for t in (y.a, y.b, x.grad.a, x.grad.b)]

        a, b = make((3,), torch.float32, device), make((3,), torch.float32, device)
        self.assertMatchesSquare(run)
        compiled = torch.compile(square, backend="aot_eager", fullgraph=True)
        self.assertEqual(compiled(TwoTensor(a, b)).b, torch.square(b))

    def test_parameter(self, device):
        parameter = torch.nn.Parameter(make((3,), torch.float32, device))
        self.assertMatchesSquare(lambda f: type(f(parameter)).__name__)
        buffer = torch.nn.Buffer(make((3,), torch.float32, device))
        self.assertMatchesSquare(lambda f: (type(f(buffer)).__name__, f(buffer)))

    def test_fake(self, device):
        def run(f):
            with FakeTensorMode() as mode:
                x = mode.from_tensor(make((2, 3), torch.float16, device).t().requires_grad_())
                y = f(x)
                y.sum().backward()
                return [(t.shape, t.stride(), t.dtype, t.device) for t in (y, x.grad)]

        self.assertMatchesSquare(run)

    def test_jagged(self, device):
        values, offsets = make((9, 4), torch.float32, device), torch.tensor([0, 2, 5, 9], device=device)

        def run(f):
            x = values.clone().requires_grad_()
            nested = torch.nested.nested_tensor_from_jagged(x, offsets)
            y = f(nested)
            y.values().sin().sum().backward()
            return y.is_nested, y.layout, y.detach().values(), x.grad

        self.assertMatchesSquare(run)
        nested = torch.nested.nested_tensor_from_jagged(values, offsets)
        self.assertEqual(square_backward(nested, nested).values(), backward_formula(values, values))

    def test_sparse(self, device):
        indices = torch.tensor([[0, 1, 1], [2, 0, 0]], device=device)
        values = torch.tensor([3.0, 4.0, 5.0], device=device)
        uncoalesced = torch.sparse_coo_tensor(indices, values, (2, 3))  # (4 + 5)² is not 4² + 5²
        for x in (uncoalesced, uncoalesced.coalesce()):
            self.assertMatchesSquare(lambda f, x=x: f(x).to_dense())
            self.assertEqual(square(x).to_dense(), torch.square(x.to_dense()))

            def backward(f, x=x):
                leaf = x.detach().clone().requires_grad_()
                (grad,) = torch.autograd.grad(f(leaf), leaf, x)
                return grad.to_dense()

            self.assertMatchesSquare(backward)


class TestOtherBackends(TestCase):
    def test_composite_serves_a_backend_without_kernels(self):
        """Where a mode puts the composite in the place of our kernels, as the dispatcher does for other backends."""
        code = """\
import torch, torchsquare
from torch.testing._internal.common_utils import TestCase
ops = torch.ops.torchsquare.square.default, torch.ops.torchsquare.square_backward.default
class Backend(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        called.append(func.name())
        if func in ops:
            with self:
                return func.decompose(*args)
        return func(*args, **(kwargs or {}))
for dtype in (torch.float32, torch.complex64, torch.float16):
    x, g = torch.randn(5, dtype=dtype), torch.randn(5, dtype=dtype)
    results = []
    for f in (torch.square, torchsquare.square):
        called = []
        leaf = x.clone().requires_grad_()
        with Backend():
            y = f(leaf)
            y.backward(g)
        results.append((y.detach(), leaf.grad))
    TestCase().assertEqual(*results)
    assert {"aten::square", "aten::mul.Tensor"} < set(called), called  # of ours, the last
print("OK")
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(result.stdout.strip(), "OK", result.stderr)

    def test_computed_table(self):
        """At a backend key without a registration the dispatcher has the composite, and autograd above it is ours."""
        table = torch._C._dispatch_dump_table("torchsquare::square")
        rows = dict(line.split(": ", 1) for line in table.splitlines() if ": " in line)
        for key in ("MPS", "XPU", "SparseCPU", "SparseCUDA", "QuantizedCPU", "PrivateUse1", "XLA"):
            self.assertIn("composite_implicit_autograd.cpp", rows[key], msg=key)
        for key in ("AutogradMPS", "AutogradXPU", "AutogradPrivateUse1", "AutogradCPU", "AutogradCUDA"):
            self.assertIn("autograd.cpp", rows[key], msg=key)


instantiate(TestSubclasses, globals())

if __name__ == "__main__":
    run_tests()
