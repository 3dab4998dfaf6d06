"""Values, dtypes, strides and devices of both operators, eagerly, against torch.square."""

import itertools

import torch
from common import (
    DTYPES,
    LAYOUTS,
    TestCase,
    backward_formula,
    dtypes_on,
    gradients,
    instantiate,
    make,
    square,
    square_backward,
)
from torch.testing._internal.common_utils import parametrize, run_tests

import torchsquare


class TestSquare(TestCase):
    def test_example(self, device):
        x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        y = torchsquare.square(x)
        y.backward(torch.full_like(y, 10.0))
        self.assertEqual(y.tolist(), [1, 4, 9])
        self.assertEqual(x.grad.tolist(), [20, 40, 60])

    @parametrize("layout", LAYOUTS)
    @parametrize("dtype", DTYPES)
    def test_forward(self, device, dtype, layout):
        if dtype not in dtypes_on(device):
            self.assertRaises(NotImplementedError, lambda: torch.square(make((1,), dtype, device)))
            self.assertRaises(NotImplementedError, lambda: square(make((1,), dtype, device)))
            return
        x = LAYOUTS[layout](lambda shape: make(shape, dtype, device))
        self.assertMatchesSquare(lambda f: f(x), **tolerance(dtype))
        self.assertNotEqual(square(x).untyped_storage().data_ptr(), x.untyped_storage().data_ptr())

    @parametrize("layout_of_self", LAYOUTS)
    @parametrize("layout_of_grad", LAYOUTS)
    def test_backward(self, device, layout_of_grad, layout_of_self):
        for dtype in (torch.float32, torch.float16, torch.complex128):
            x = LAYOUTS[layout_of_self](lambda shape, dtype=dtype: make(shape, dtype, device))
            g = LAYOUTS[layout_of_grad](lambda shape, dtype=dtype: make(shape, dtype, device))
            self.assertMatchesSquare(lambda f, x=x, g=g: gradients(f, x, grad_output=lambda _: g))
            self.assertEqual(square_backward(g, x), backward_formula(g, x))
            self.assertEqual(square_backward(g, x).stride(), (g * torch.square(x)).stride())

    @parametrize("dtype", DTYPES)
    def test_backward_dtypes(self, device, dtype):
        g, x = make((1000,), dtype, device), make((1000,), dtype, device)
        if dtype not in dtypes_on(device):
            self.assertRaises(NotImplementedError, lambda: square_backward(g, x))
            return
        wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}.get(
            dtype, dtype
        )
        expected = backward_formula(g.to(wide), x.to(wide)).to(torch.int64 if dtype == torch.bool else dtype)
        self.assertEqual(square_backward(g, x), expected)

    def test_grad_layouts_of_losses(self, device):
        losses = {
            "sum": lambda y: y.sum(),
            "cat": lambda y: torch.cat([y, y.sin()], 1).sum(),
            "t": lambda y: (y.t() * torch.arange(6.0, device=device)[:, None]).sum(),
            "strided": lambda y: y[:, ::2].sum() + y[1:].sum(),
            "rows": lambda y: (y.sum(1) * y.sum(1)).sum(),
        }
        x = make((4, 6), torch.float32, device)
        for loss in losses.values():
            self.assertMatchesSquare(lambda f, loss=loss: gradients(lambda x: loss(f(x)), x))

    def test_channels_last(self, device):
        for shape, memory_format in (((2, 3, 4, 5), torch.channels_last), ((2, 3, 4, 5, 6), torch.channels_last_3d)):
            dense = make(shape, torch.float32, device)
            last = dense.contiguous(memory_format=memory_format)
            for x, g in ((dense, last), (last, dense), (last, last)):
                self.assertMatchesSquare(lambda f, x=x, g=g: gradients(f, x, grad_output=lambda _: g))
                meta = square_backward(g.to("meta"), x.to("meta"))
                self.assertEqual(square_backward(g, x).stride(), meta.stride())

    @parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.float64, torch.complex128])
    def test_sliding_views(self, device, dtype):
        b, c = make((4096,), dtype, device), make((4096,), dtype, device)  # the last views end where they end
        for n, o in itertools.product((1, 3, 7, 15, 17, 1023, 4096 - 8), range(9)):
            self.assertMatchesSquare(lambda f, o=o, n=n: f(b[o : o + n]), **tolerance(dtype))
            p = (2 * o + 1) % 9  # every distance to o, and every alignment
            g, x = b[o : o + n], c[p : p + n]
            self.assertEqual(square_backward(g, x), backward_formula(g, x), **tolerance(dtype))
            if dtype.is_floating_point or dtype.is_complex:
                self.assertMatchesSquare(lambda f, x=x, g=g: gradients(f, x, grad_output=lambda _: g))

    @parametrize("shape", [(70000, 1), (1, 70000), (70000, 3, 1), (3, 1, 70000), (1025, 1025)])
    def test_large_dimensions(self, device, shape):
        x = make(shape, torch.float32, device)
        for view in (x, x.transpose(0, -1)):
            self.assertMatchesSquare(lambda f, view=view: gradients(f, view, grad_output=lambda y: y + 1))

    @parametrize("shape", [(0,), (0, 3), (2, 0, 4), ()])
    @parametrize("dtype", [torch.float32, torch.float16, torch.complex64])
    def test_empty_and_scalar(self, device, dtype, shape):
        x = make(shape, dtype, device)
        self.assertMatchesSquare(lambda f: gradients(f, x))
        if x.is_cuda:
            torch.cuda.synchronize()  # raises what a launch of no blocks would have left pending

    def test_special_values(self, device):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            values = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-22, 3e38, 6e-8, 40000.0, -1.5]
            x = torch.tensor(values * 7, dtype=dtype, device=device)[1:]
            self.assertMatchesSquare(lambda f, x=x: (f(x), f(x).signbit() & ~x.isnan()), rtol=0, atol=0)
            g = x.roll(3)
            ours, theirs = (gradients(f, x, grad_output=lambda _, g=g: g)[1] for f in (square, torch.square))
            overflows = torch.isinf(2 * x) & torch.isfinite(x)  # where torch.square's 2x leaves the range too early
            self.assertEqual(ours[~overflows], theirs[~overflows])

    def test_low_precision_is_rounded_once(self, device):
        for dtype in (torch.float16, torch.bfloat16):
            x, g = make((10001,), dtype, device), make((10001,), dtype, device)
            for scale in (1.0, 2.0**-6, 2.0**-9) if dtype == torch.float16 else (1.0,):  # down to half's subnormals
                a, b = x * scale, g * scale
                self.assertEqual(square(a), torch.square(a.double()).to(dtype), rtol=0, atol=0)
                self.assertEqual(
                    square_backward(b, a), backward_formula(b.double(), a.double()).to(dtype), rtol=0, atol=0
                )

    def test_half_gradient_does_not_overflow_on_the_way(self, device):
        """The one place where a result may differ from torch.square's: its 2x is inf for x = 40000 in float16."""
        x = torch.full((13,), 40000.0, dtype=torch.float16, device=device)
        for g, expected in ((0.0, 0.0), (0.01, 800.0)):
            grad_output = torch.full_like(x, g)
            self.assertEqual(square_backward(grad_output, x).tolist(), [expected] * 13, rtol=2e-3, atol=0)
            self.assertFalse(gradients(torch.square, x, grad_output=lambda _, g=grad_output: g)[1].isfinite().any())

    def test_integers_wrap(self, device):
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            info = torch.iinfo(dtype)
            x = torch.tensor([info.min, info.max, 16, 0, 3] * 5, dtype=dtype, device=device)
            self.assertMatchesSquare(lambda f, x=x: f(x))

    def test_bool_gives_int64(self, device):
        x = torch.tensor([0, 1, 2, 255] * 5, dtype=torch.uint8, device=device).view(torch.bool)
        self.assertMatchesSquare(lambda f: f(x))

    def test_lazy_views(self, device):
        c = make((3, 5), torch.complex64, device)
        views = {
            "conj": c.conj(),
            "neg": c.conj().imag,
            "neg_view": torch._neg_view(c.real),
            "zero": torch._efficientzerotensor((3, 5), device=device),
        }
        for x in views.values():
            self.assertMatchesSquare(lambda f, x=x: f(x))
            g = make((3, 5), x.dtype, device)
            self.assertMatchesSquare(lambda f, x=x, g=g: gradients(f, x, grad_output=lambda _: g))
            self.assertEqual(square_backward(g, x), backward_formula(g, x))
            self.assertEqual(square_backward(x, g), backward_formula(x, g))

    def test_many_dimensions(self, device):
        x = make((4,) + (2,) * 15, torch.float32, device).permute(*range(15, -1, -1))[..., ::2]
        self.assertMatchesSquare(lambda f: gradients(f, x))

    def test_meta_matches(self, device):
        for layout, dtype in itertools.product(LAYOUTS.values(), dtypes_on(device)):
            x = layout(lambda shape, dtype=dtype: make(shape, dtype, device))
            g = x.contiguous()
            for real, meta in (
                (square(x), square(meta_like(x))),
                (square_backward(g, x), square_backward(meta_like(g), meta_like(x))),
            ):
                self.assertEqual((meta.shape, meta.stride(), meta.dtype), (real.shape, real.stride(), real.dtype))


def meta_like(x: torch.Tensor) -> torch.Tensor:
    """The tensor's layout on device meta (`x.to("meta")` keeps no gaps)."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def tolerance(dtype: torch.dtype) -> dict:
    """Real numbers are squared exactly as torch.square does; complex products may be contracted to FMAs or not."""
    return {} if dtype.is_complex else {"rtol": 0, "atol": 0}


instantiate(TestSquare, globals())

if __name__ == "__main__":
    run_tests()
