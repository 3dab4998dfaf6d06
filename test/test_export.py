"""torch.export, decompositions, ONNX, AOTInductor: the programs, and what they need when they run elsewhere."""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from common import TestCase, backward_formula, instantiate, make, square
from torch.testing._internal.common_utils import run_tests

import torchsquare

ROOT = Path(torchsquare.__file__).parent.parent


class Model(torch.nn.Module):
    def __init__(self, function=torch.ops.torchsquare.square):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x) + 1


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the code in a fresh process."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)


class TestExport(TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def export(self, device, model=None):
        x, batch = make((4, 3), torch.float32, device), torch.export.Dim("batch", min=0)
        return torch.export.export(model or Model(), (x,), dynamic_shapes={"x": {0: batch}})

    def test_graph_keeps_the_operator(self, device):
        program = self.export(device)
        self.assertExpectedInline(
            program.graph_module.code.strip(),
            """\
def forward(self, x):
    square = torch.ops.torchsquare.square.default(x);  x = None
    add = torch.ops.aten.add.Tensor(square, 1);  square = None
    return (add,)""",
        )
        for n in (0, 1, 2, 9):
            x = make((n, 3), torch.float32, device)
            self.assertEqual(program.module()(x), torch.square(x) + 1)

    def test_strict_and_training(self, device):
        x = make((4, 3), torch.float32, device)
        for strict in (False, True):
            program = torch.export.export(Model(), (x,), strict=strict)
            leaf = x.clone().requires_grad_()
            program.module()(leaf).sum().backward()
            self.assertEqual(leaf.grad, backward_formula(torch.ones_like(x), x))

    def test_decompositions(self, device):
        program = self.export(device).run_decompositions(torchsquare.decompositions())
        calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
        self.assertEqual({op.namespace for op in calls}, {"aten"})
        for n in (0, 1, 5):
            x = make((n, 3), torch.float32, device)
            self.assertEqual(program.module()(x), torch.square(x) + 1)

    def test_decompositions_of_the_backward(self, device):
        table = torchsquare.decompositions()
        x = make((4, 3), torch.complex64, device)
        g = x.cos()
        self.assertEqual(table[torch.ops.torchsquare.square.default](x), torch.square(x))
        self.assertEqual(table[torch.ops.torchsquare.square_backward.default](g, x), backward_formula(g, x))

    def test_saved_program(self, device):
        path, x = self.directory / "model.pt2", make((5, 3), torch.float32, device)
        torch.export.save(self.export(device), path)
        torch.save((x, torch.square(x) + 1), self.directory / "x_y.pt")
        load = """\
import sys, torch
program = torch.export.load(sys.argv[1])
x, y = torch.load(sys.argv[2])
torch.testing.assert_close(program.module()(x), y)
print("OK")
"""
        result = run_python("import torchsquare\n" + load, path, self.directory / "x_y.pt")
        self.assertEqual(result.stdout.strip(), "OK", result.stderr)
        result = run_python(load, path, self.directory / "x_y.pt")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed to resolve torch.ops.torchsquare.square.default", result.stderr)

    def run_aot_inductor(self, device, model):
        """Compiles the model, X² + 1, and runs it in a process without torchsquare: nothing of the operator is left."""
        path = torch._inductor.aoti_compile_and_package(
            self.export(device, model), package_path=str(self.directory / "model.pt2")
        )
        x = make((5, 3), torch.float32, device)
        torch.save((x, torch.square(x) + 1), self.directory / "x_y.pt")
        code = """\
import sys, torch
model = torch._inductor.aoti_load_package(sys.argv[1])
x, y = torch.load(sys.argv[2])
for n in (1, 5):
    torch.testing.assert_close(model(x[:n]), y[:n])
print("OK")
"""
        return run_python(code, path, self.directory / "x_y.pt")

    def test_aot_inductor(self, device):
        result = self.run_aot_inductor(device, Model())
        if result.returncode < 0:  # some linkers make libraries that crash torch, whatever is in them
            self.assertEqual(self.run_aot_inductor(device, Model(torch.square)).returncode, result.returncode)
            return
        self.assertEqual(result.stdout.strip(), "OK", result.stderr)

    def test_pre_dispatch_and_training_ir(self, device):
        from torch.fx.experimental.proxy_tensor import make_fx

        x = make((4,), torch.float32, device).requires_grad_()

        def step(x):
            return torch.autograd.grad(square(x).sum(), x)[0]

        for pre_dispatch in (False, True):
            graph = make_fx(step, tracing_mode="symbolic", pre_dispatch=pre_dispatch)(x)
            self.assertEqual(graph(x), backward_formula(torch.ones_like(x), x))

    def test_onnx(self, device):
        try:
            import onnx  # noqa: F401
            import onnxscript  # noqa: F401
            from onnx.reference import ReferenceEvaluator
        except ImportError:
            self.skipTest("onnx and onnxscript are optional")
        x = make((4, 3), torch.float32, device)
        program = self.export(device).run_decompositions(torchsquare.decompositions())
        onnx_program = torch.onnx.export(program, dynamo=True, verbose=False)
        (name,) = (value.name for value in onnx_program.model_proto.graph.input)
        (y,) = ReferenceEvaluator(onnx_program.model_proto).run(None, {name: x.cpu().numpy()})
        self.assertEqual(torch.from_numpy(y), torch.square(x).cpu() + 1)


instantiate(TestExport, globals())

if __name__ == "__main__":
    run_tests()
