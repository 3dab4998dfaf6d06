"""torch.func: every transformation and their compositions, eagerly and compiled, against torch.square."""

import torch
from common import TestCase, backward_formula, instantiate, make, square, square_backward
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.testing._internal.common_utils import parametrize, run_tests

TRANSFORMS = {
    "grad": lambda f, x: grad(lambda x: f(x).sin().sum())(x),
    "vjp": lambda f, x: vjp(f, x)[1](f(x.cos())),
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(lambda x: f(x).sin().sum())(x),
    "jacrev_jacrev": lambda f, x: jacrev(jacrev(f))(x),
    "jacfwd_jacfwd": lambda f, x: jacfwd(jacfwd(f))(x),
    "jacrev_jacfwd": lambda f, x: jacrev(jacfwd(f))(x),
    "grad_grad_grad": lambda f, x: grad(grad(grad(lambda s: f(s.sin()).cos().sum())))(x[0, 0]),
    "vmap": lambda f, x: vmap(f)(x),
    "vmap_in_dims": lambda f, x: vmap(f, in_dims=1, out_dims=1)(x),
    "vmap_nested": lambda f, x: vmap(vmap(f, in_dims=0))(x),
    "vmap_chunked": lambda f, x: vmap(f, chunk_size=2)(x),
    "vmap_grad": lambda f, x: vmap(grad(lambda x: f(x).sin().sum()))(x),
    "vmap_jvp": lambda f, x: vmap(lambda x, t: jvp(f, (x,), (t,)))(x, x.cos()),
    "vmap_vjp": lambda f, x: vmap(lambda g: vjp(f, x)[1](g))(torch.stack([f(x), f(x.cos())])),
}


def between_reals(f, dtype):
    """f as a function of a real tensor with a real result: jacrev and its like take no complex ones."""
    return (lambda x: torch.view_as_real(f(torch.complex(x, x.sin())))) if dtype.is_complex else f


class TestFunctorch(TestCase):
    @parametrize("dtype", [torch.float64, torch.complex128])
    @parametrize("transform", TRANSFORMS)
    def test_transform(self, device, transform, dtype):
        x = make((3, 4), torch.float64, device)
        run = TRANSFORMS[transform]
        # Warnings are errors: vmap may not fall back to a loop. Some releases lack a batching rule of _neg_view, which
        # torch.square needs as well.
        self.assertMatchesSquare(lambda f: run(between_reals(f, dtype), x), may_fail="aten::_neg_view")

    def test_composite_backward(self, device):
        """square_backward under each transformation, against its formula."""
        for dtype in (torch.float64, torch.complex128):
            g, x = make((3, 4), dtype, device), make((3, 4), dtype, device)
            for run in (
                lambda f, g, x: vmap(f)(g, x),
                lambda f, g, x: vmap(f, in_dims=(0, None))(g, x[0]),
                lambda f, g, x: vmap(f, in_dims=(None, 1), out_dims=1)(g[:, 0], x),
                lambda f, g, x: jvp(f, (g, x), (x, g)),
                lambda f, g, x: vjp(f, g, x)[1](g),
                lambda f, g, x: jvp(lambda g, x: vjp(f, g, x)[1](x), (g, x), (x, g)),
            ):
                self.assertEqual(run(square_backward, g, x), run(backward_formula, g, x))

    def test_per_sample_gradients(self, device):
        class Model(torch.nn.Module):
            def __init__(self, f):
                super().__init__()
                self.linear, self.f = torch.nn.Linear(4, 2, device=device), f

            def forward(self, x):
                return self.f(self.linear(x)).sum()

        x = make((5, 4), torch.float32, device)
        parameters = dict(Model(square).named_parameters())

        def run(f):
            model = Model(f)
            return vmap(grad(lambda p, x: functional_call(model, p, (x,))), in_dims=(None, 0))(parameters, x)

        self.assertMatchesSquare(run)

    @parametrize("transform", ["grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "vmap_grad"])
    def test_compiled(self, device, transform):
        x = make((3, 4), torch.float64, device)
        run = TRANSFORMS[transform]

        def compiled(f):
            torch.compiler.reset()
            # A function around the operator, since functools.wraps in torch.func wants one that Dynamo can read.
            return torch.compile(lambda x: run(lambda x: f(x), x), backend="aot_eager", fullgraph=True)(x)

        self.assertMatchesSquare(compiled)
        self.assertEqual(compiled(square), run(square, x))


instantiate(TestFunctorch, globals())

if __name__ == "__main__":
    run_tests()
