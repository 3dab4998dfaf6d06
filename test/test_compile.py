"""torch.compile: every backend, dynamic shapes, strides, the graphs that are recorded, fusion, compiled autograd."""

import torch
from common import LAYOUTS, TestCase, gradients, instantiate, make, square, square_backward
from functorch.compile import aot_function, make_boxed_func
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch._inductor.utils import run_and_get_code
from torch.testing._internal.common_utils import parametrize, run_tests


def model(f):
    """A pointwise neighbourhood for f, in which it can be fused."""
    return lambda x: torch.relu(0.5 * f(x) + 1)


class TestCompile(TestCase):
    def setUp(self):
        super().setUp()
        torch.compiler.reset()

    @parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_backends(self, device, backend):
        for dtype in (torch.float32, torch.float16):
            x = make((6, 5), dtype, device)

            def run(f, x=x):
                torch.compiler.reset()
                return gradients(torch.compile(model(f), backend=backend, fullgraph=True), x)

            self.assertMatchesSquare(run)
            self.assertEqual(run(square), gradients(model(square), x))

    @parametrize("backend", ["aot_eager", "inductor"])
    @parametrize("layout", ["permuted", "channels_last", "every_second", "padded_rows", "expanded", "misaligned"])
    def test_strides(self, device, backend, layout):
        x = LAYOUTS[layout](lambda shape: make(shape, torch.float32, device))
        g = make(x.shape, torch.float32, device)

        def run(f, **kwargs):
            torch.compiler.reset()
            return gradients(torch.compile(f, backend=backend, fullgraph=True), x, **kwargs)

        for wrap in (lambda f: f, model):
            # The strides of a gradient are AOTAutograd's choice, in some releases not eager's: torch.square's as well.
            self.assertMatchesSquare(lambda f, wrap=wrap: run(wrap(f)))
            self.assertMatchesSquare(lambda f, wrap=wrap: run(wrap(f), grad_output=lambda _: g))
            self.assertEqual(run(wrap(square)), gradients(wrap(square), x))
            self.assertEqual(run(wrap(square))[0], wrap(square)(x), exact_stride=True)
        for grad_output in (g, x):
            torch.compiler.reset()
            compiled = torch.compile(square_backward, backend=backend, fullgraph=True)
            self.assertEqual(compiled(grad_output, x), square_backward(grad_output, x), exact_stride=True)

    @parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float64])
    def test_dtypes(self, device, dtype):
        x = make((37,), dtype, device)
        self.assertEqual(torch.compile(square, fullgraph=True)(x), torch.square(x), rtol=0, atol=0)

    def test_low_precision_backward_agrees_with_eager(self, device):
        x = torch.full((13,), 40000.0, dtype=torch.float16, device=device)
        for g in (torch.zeros_like(x), torch.full_like(x, 0.01)):
            compiled = torch.compile(square_backward, fullgraph=True)
            self.assertEqual(compiled(g, x), square_backward(g, x), rtol=0, atol=0)

    def test_dynamic_shapes_compile_once(self, device):
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model(square), backend=counter, fullgraph=True, dynamic=True)
        for n in (2, 3, 17, 64):
            x = make((n, 5), torch.float32, device)
            self.assertEqual(gradients(compiled, x), gradients(model(torch.square), x))
        self.assertEqual(counter.frame_count, 1)

    @torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
    def test_unbacked_sizes(self, device):
        def run(f):
            torch.compiler.reset()
            positive = torch.compile(lambda x: f(x[x > 0].contiguous()), backend="aot_eager", fullgraph=True)
            return gradients(positive, x)

        x = make((20,), torch.float32, device)
        self.assertMatchesSquare(run)
        nonzero = torch.compile(lambda x: square(x.nonzero()), fullgraph=True)
        self.assertEqual(nonzero(x > 0), torch.square((x > 0).nonzero()))

    def test_graphs_keep_the_operators(self, device):
        graphs = []

        def record(module, inputs):
            graphs.append(module.code.strip())
            return make_boxed_func(module.forward)

        x = make((3,), torch.float32, device).requires_grad_()
        aot_function(square, fw_compiler=record, bw_compiler=record)(x).sum().backward()
        self.assertExpectedInline(
            "\n".join(graphs),
            """\
def forward(self, primals_1):
    square = torch.ops.torchsquare.square.default(primals_1)
    return (square, primals_1)
def forward(self, primals_1, tangents_1):
    square_backward = torch.ops.torchsquare.square_backward.default(tangents_1, primals_1);  tangents_1 = primals_1 = None
    return (square_backward,)""",  # noqa: E501
        )

    def test_inductor_fuses(self, device):
        """As many kernels as with torch.square, and no call of the operators: they are no fusion barrier."""

        def kernels(f):
            torch.compiler.reset()
            x = make((64, 64), torch.float32, device).requires_grad_()
            compiled = torch.compile(model(f), fullgraph=True)
            _, codes = run_and_get_code(lambda: compiled(x).sum().backward())
            self.assertEqual(len(codes), 2)  # a forward and a backward
            for code in codes:
                self.assertNotIn("ops.torchsquare", code)  # the name stands in comments
            return [code.count("async_compile.cpp_pybinding(") + code.count("async_compile.triton(") for code in codes]

        self.assertMatchesSquare(kernels)
        self.assertEqual(kernels(square), [1, 1])

    def test_compiled_autograd(self, device):
        def run(f):
            torch.compiler.reset()
            x = data.clone().requires_grad_()
            y = f(x).sin() * f(x)
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter, fullgraph=True)):
                y.sum().backward()
            return x.grad

        data = make((4,), torch.float32, device)
        counter = CompileCounter()
        self.assertMatchesSquare(run)
        self.assertEqual(counter.frame_count, 2)

        x = data.clone().requires_grad_()

        counters.clear()
        with torch._dynamo.config.patch(compiled_autograd=True):  # read by torch.compile, not by the call
            torch.compile(lambda x: square(x).sum().backward(), backend="aot_eager")(x)
        self.assertEqual(counters["compiled_autograd"]["captures"], 1)
        self.assertEqual(x.grad, gradients(torch.square, data)[1])

    def test_compiled_double_backward(self, device):
        def penalty(f):
            x = data.clone().requires_grad_()
            (grad,) = torch.autograd.grad(f(x).sin().sum(), x, create_graph=True)
            return torch.autograd.grad((grad * grad).sum(), x)[0]

        data = make((4,), torch.float32, device)
        self.assertMatchesSquare(penalty)
        compiled = torch.compile(square, backend="eager", fullgraph=True)
        self.assertEqual(penalty(compiled), penalty(torch.square))

    def test_module_with_parameters(self, device):
        def train(f):
            torch.compiler.reset()
            torch.manual_seed(0)
            layers = torch.nn.Linear(5, 8), torch.nn.Linear(8, 1)
            first, last = (layer.to(device) for layer in layers)
            parameters = [*first.parameters(), *last.parameters()]
            optimizer = torch.optim.SGD(parameters, lr=0.01)
            step = torch.compile(lambda x: last(f(first(x))).pow(2).mean(), fullgraph=True)
            for _ in range(3):
                optimizer.zero_grad()
                step(x).backward()
                optimizer.step()
            return [p.detach() for p in parameters]

        x = make((16, 5), torch.float32, device)
        self.assertMatchesSquare(train)

    def test_reduce_overhead(self, device):
        x = make((64,), torch.float32, device)
        compiled = torch.compile(model(square), mode="reduce-overhead", fullgraph=True)
        counters.clear()
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            x = x + 1
            actual = [t.clone() for t in gradients(compiled, x)]
            self.assertEqual(actual, list(gradients(model(torch.square), x)))
        if x.is_cuda:
            self.assertEqual(counters["inductor"]["cudagraph_skips"], 0)


instantiate(TestCompile, globals())

if __name__ == "__main__":
    run_tests()
