"""What the tests share: torch.square as the oracle, and the layouts of a tensor."""

import math
import re
from collections.abc import Callable

import torch
from torch.testing._internal import common_device_type, common_utils

import torchsquare  # noqa: F401  (registers the operators)

square = torch.ops.torchsquare.square
square_backward = torch.ops.torchsquare.square_backward

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128),
]


def dtypes_on(device: str) -> list[torch.dtype]:
    """The dtypes that torch.square takes on the device."""
    return [dtype for dtype in DTYPES if dtype != torch.complex32 or torch.device(device).type == "cuda"]


def backward_formula(grad_output: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What square_backward gives, without the autograd engine, which may change the strides."""
    return grad_output * (2 * x).conj()


def gradients(f: Callable, *inputs: torch.Tensor, grad_output: Callable = torch.ones_like) -> tuple[torch.Tensor, ...]:
    """f(*inputs) and the gradients of its inputs for the upstream gradient `grad_output(result)`."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = f(*inputs)
    return y.detach(), *torch.autograd.grad(y, inputs, grad_output(y))


def error_of(call: Callable, *args) -> tuple[str, str]:
    """The kind of the error that the call raises, and the first sentence of its text."""
    try:
        call(*args)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0].split(". ")[0]
    return "none", ""


class TestCase(common_utils.TestCase):
    """Compares with torch.square."""

    def assertMatchesSquare(self, run: Callable, may_fail: str | None = None, **kwargs) -> None:
        """Asserts that `run(f)` gives the same for f = ours as for f = torch.square: values, dtypes, strides, devices.

        With `may_fail`, a part of an error message: where torch.square fails with it, so must ours.
        """
        try:
            expected = run(torch.square)
        except Exception as error:
            if may_fail is None or may_fail not in str(error):
                raise
            self.assertRaisesRegex(type(error), re.escape(may_fail), lambda: run(square))
            return
        self.assertEqual(run(square), expected, exact_stride=True, exact_device=True, **kwargs)


def instantiate(test_class: type, scope: dict) -> None:
    """Makes a class for the CPU and, where there is a GPU, one for it: each test gets its `device`."""
    common_device_type.instantiate_device_type_tests(test_class, scope, only_for=("cpu", "cuda"))


def make(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A contiguous random tensor; floating point values are of order 1, integers take all values."""
    if dtype in (torch.complex32, torch.float16, torch.bfloat16):
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return make(shape, wide, device).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype, device=device)
    if dtype == torch.bool:
        return torch.randint(2, shape, device=device).bool()
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, shape, dtype=dtype, device=device)


SHAPE = (2, 3, 5, 7)


def _overlapping(make):
    return make((20,)).as_strided(SHAPE, (0, 1, 2, 1))


# Each takes make(shape) and gives a tensor of shape SHAPE.
LAYOUTS: dict[str, Callable] = {
    "contiguous": lambda make: make(SHAPE),
    "permuted": lambda make: make((5, 2, 7, 3)).permute(1, 3, 0, 2),
    "transposed": lambda make: make((2, 3, 7, 5)).transpose(2, 3),
    "channels_last": lambda make: make(SHAPE).contiguous(memory_format=torch.channels_last),
    "misaligned": lambda make: make((math.prod(SHAPE) + 1,))[1:].view(SHAPE),
    "padded_rows": lambda make: make((2, 3, 5, 10))[..., :7],
    "every_second": lambda make: make((2, 3, 5, 14))[..., ::2],
    "expanded": lambda make: make((2, 1, 5, 7)).expand(SHAPE),
    "scalar_expanded": lambda make: make(()).expand(SHAPE),
    "overlapping": _overlapping,
}
