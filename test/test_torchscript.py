"""TorchScript: deprecated upstream, and what many deployments still run."""

import io

import torch
from common import TestCase, gradients, instantiate, make
from torch.testing._internal.common_utils import run_tests

import torchsquare


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.ops.torchsquare.square(x) + torchsquare.square(x)


def expected(x):
    return 4 * torch.square(x)


class TestTorchScript(TestCase):
    def variants(self, device):
        """The model as TorchScript, in each way in which one gets there."""
        model = Model().to(device)
        scripted = torch.jit.script(model)
        traced = torch.jit.trace(model, make((2, 3), torch.float32, device))
        buffer = io.BytesIO()
        torch.jit.save(scripted, buffer)
        buffer.seek(0)
        return {
            "scripted": scripted,
            "traced": traced,
            "loaded": torch.jit.load(buffer),
            "frozen": torch.jit.freeze(torch.jit.script(model.eval())),
            "optimized": torch.jit.optimize_for_inference(torch.jit.script(model.eval())),
        }

    def test_values_and_gradients(self, device):
        for name, model in self.variants(device).items():
            x = make((4, 5), torch.float32, device)
            for _ in range(4):  # the profiling executor specialises after two runs, with and without grad
                with torch.no_grad():
                    self.assertEqual(model(x), expected(x), msg=name)
                self.assertEqual(gradients(model, x), gradients(expected, x), msg=name)

    def test_graph(self, device):
        graph = torch.jit.script(torchsquare.square).graph
        self.assertEqual([node.kind() for node in graph.nodes()], ["torchsquare::square"])
        self.assertExpectedInline(
            str(torch._C._jit_get_schemas_for_operator("torchsquare::square")[0]),
            "torchsquare::square(Tensor self) -> Tensor",
        )
        self.assertExpectedInline(
            str(torch._C._jit_get_schemas_for_operator("torchsquare::square_backward")[0]),
            "torchsquare::square_backward(Tensor grad_output, Tensor self) -> Tensor",
        )


instantiate(TestTorchScript, globals())

if __name__ == "__main__":
    run_tests()
