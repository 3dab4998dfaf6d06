"""What is registered: schemas, tags, the kernel of each dispatch key; opcheck; PyTorch's own OpInfo of square."""

import re

import torch
from common import LAYOUTS, TestCase, instantiate, make, square, square_backward
from torch.testing._internal.common_device_type import ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import parametrize, run_tests

import torchsquare

OPINFO = next(op for op in op_db if op.name == "square")


def dispatch_table(op: str) -> str:
    """The dispatch keys with a kernel of ours and the file of each, a line each, sorted."""
    dump = torch._C._dispatch_dump(f"torchsquare::{op}")
    rows = re.findall(r"^(\w+)(?:\[alias\])?: registered at .*?(\w+\.\w+):\d+ ::", dump, re.MULTILINE)
    return "\n".join(f"{key}: {file}" for key, file in sorted(rows))


class TestDispatchTable(TestCase):
    def test_square(self):
        self.assertExpectedInline(
            dispatch_table("square").replace("CUDA: cuda.cpp\n", ""),  # test_cuda
            """\
AutocastCUDA: autocast.cpp
AutocastMAIA: autocast.cpp
AutocastMPS: autocast.cpp
AutocastMTIA: autocast.cpp
AutocastXPU: autocast.cpp
Autograd: autograd.cpp
CPU: cpu.cpp
CompositeImplicitAutograd: composite_implicit_autograd.cpp
FuncTorchBatched: functorch_batched.cpp
Meta: meta.cpp""",
        )

    def test_square_backward(self):
        self.assertExpectedInline(
            dispatch_table("square_backward").replace("CUDA: cuda.cpp\n", ""),
            """\
Autograd: autograd.cpp
CPU: cpu.cpp
CompositeImplicitAutograd: composite_implicit_autograd.cpp
FuncTorchBatched: functorch_batched.cpp
Meta: meta.cpp""",
        )

    def test_cuda(self):
        for op in ("square", "square_backward"):
            self.assertEqual("CUDA: cuda.cpp" in dispatch_table(op), torchsquare._build_info["cuda"] is not None)

    def test_tags(self):
        for op in (square, square_backward):
            self.assertEqual(set(op.default.tags), {torch.Tag.pointwise, torch.Tag.pt2_compliant_tag})

    def test_autocast_keys(self):
        """Ours has an autocast kernel exactly where the pow in torch.square has one."""
        keys = [key for key in torch._C.DispatchKey.__members__ if key.startswith("Autocast")]
        for key in keys:
            theirs = torch._C._dispatch_has_kernel_for_dispatch_key("aten::pow.Tensor_Scalar", key)
            ours = torch._C._dispatch_has_kernel_for_dispatch_key("torchsquare::square", key)
            self.assertEqual(ours, theirs, msg=key)
        self.assertIn("AutocastCUDA", keys)


class TestOperators(TestCase):
    @parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.bool, torch.int64])
    @parametrize("layout", ["contiguous", "permuted", "channels_last", "every_second", "expanded", "scalar", "empty"])
    def test_opcheck(self, device, layout, dtype):
        def inputs():
            if layout in ("scalar", "empty"):
                return make(() if layout == "scalar" else (2, 0, 3), dtype, device)
            return LAYOUTS[layout](lambda shape: make(shape, dtype, device))

        differentiable = dtype.is_floating_point or dtype.is_complex
        for wants in (False, True) if differentiable else (False,):
            x, g = inputs().requires_grad_(wants), inputs()
            torch.library.opcheck(square, (x,))
            torch.library.opcheck(square_backward, (g, x))
            torch.library.opcheck(square_backward, (g.detach().clone().requires_grad_(wants), x.detach()))

    @ops([OPINFO])
    def test_opinfo(self, device, dtype, op):
        samples = list(op.sample_inputs(device, dtype, requires_grad=dtype.is_floating_point or dtype.is_complex))
        samples += op.reference_inputs(device, dtype)
        for sample in samples:
            self.assertEqual((sample.args, sample.kwargs), ((), {}))
            self.assertMatchesSquare(lambda f, sample=sample: f(sample.input))
            if sample.input.requires_grad:
                self.assertMatchesSquare(
                    lambda f, sample=sample: torch.autograd.grad(f(sample.input).abs().sum(), sample.input)
                )

    @ops([OPINFO], dtypes=(torch.float32,))
    def test_opinfo_dtypes(self, device, dtype, op):
        for dtype in op.supported_dtypes(torch.device(device).type):
            self.assertMatchesSquare(lambda f, dtype=dtype: f(make((3,), dtype, device)).dtype)


instantiate(TestOperators, globals())

if __name__ == "__main__":
    run_tests()
