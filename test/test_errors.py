"""Wrong calls, and the error that each gives. EXPECTTEST_ACCEPT=1 writes the tables anew."""

import warnings

import torch
from common import TestCase, backward_formula, error_of, instantiate, square, square_backward
from torch.testing._internal.common_device_type import instantiate_device_type_tests

import torchsquare


def table(errors):
    return "\n".join(f"{name}: {kind}\n    {text}" for name, (kind, text) in errors.items())


class TestErrors(TestCase):
    def assertErrors(self, errors, expected):
        self.assertExpectedInline(table(errors), expected, skip=1)

    def test_operands_of_square_backward_differ(self, device):
        x = torch.ones(2, 3, device=device)
        grads = {
            "broadcast": torch.ones(3, device=device),
            "0-d": torch.ones((), device=device),
            "empty": torch.ones(0, 3, device=device),
            "flat": torch.ones(6, device=device),
            "transposed": torch.ones(3, 2, device=device),
            "float64": x.double(),
            "complex": torch.complex(x, x),
            "int": x.long(),
            "meta": x.to("meta"),
            "None": None,
        }
        errors = {name: error_of(square_backward, grad, x) for name, grad in grads.items()}
        errors["meta"] = errors["meta"][0], errors["meta"][1].replace(device, "<device>")
        self.assertErrors(
            errors,
            """\
broadcast: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [3] and [2, 3]
0-d: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [] and [2, 3]
empty: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [0, 3] and [2, 3]
flat: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [6] and [2, 3]
transposed: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [3, 2] and [2, 3]
float64: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same dtype, got Double and Float
complex: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same dtype, got ComplexFloat and Float
int: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same dtype, got Long and Float
meta: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same device, got meta and <device>
None: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same shape, got [0] and [2, 3]""",
        )
        self.assertEqual(error_of(square_backward, x.flatten(), x.detach().requires_grad_()), errors["flat"])
        self.assertEqual(error_of(square_backward, x.flatten().to("meta"), x.to("meta")), errors["flat"])
        self.assertEqual(error_of(square_backward, None, None)[0], "RuntimeError")

    def test_arguments(self, device):
        x = torch.ones(3, device=device)
        errors = {
            "no argument": error_of(square),
            "two": error_of(square, x, x),
            "keyword": error_of(lambda: square(input=x)),
            "None": error_of(square, None),
            "float": error_of(square, 1.0),
            "list": error_of(square, [x]),
            "str": error_of(square, "x"),
            "ndarray": error_of(square, x.cpu().numpy()),
            "backward, one": error_of(square_backward, x),
            "backward, three": error_of(square_backward, x, x, x),
        }
        # The dispatcher says this, and says RuntimeError for every operator of torch.ops, where the parser of
        # torch.square's arguments says TypeError.
        self.assertErrors(
            errors,
            """\
no argument: RuntimeError
    torchsquare::square() is missing value for argument 'self'
two: RuntimeError
    torchsquare::square() expected at most 1 argument(s) but received 2 argument(s)
keyword: RuntimeError
    torchsquare::square() is missing value for argument 'self'
None: RuntimeError
    Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #0 'self'
float: RuntimeError
    torchsquare::square() Expected a value of type 'Tensor' for argument 'self' but instead found type 'float'.
list: RuntimeError
    torchsquare::square() Expected a value of type 'Tensor' for argument 'self' but instead found type 'list'.
str: RuntimeError
    torchsquare::square() Expected a value of type 'Tensor' for argument 'self' but instead found type 'str'.
ndarray: RuntimeError
    torchsquare::square() Expected a value of type 'Tensor' for argument 'self' but instead found type 'ndarray'.
backward, one: RuntimeError
    torchsquare::square_backward() is missing value for argument 'self'
backward, three: RuntimeError
    torchsquare::square_backward() expected at most 2 argument(s) but received 3 argument(s)""",
        )
        self.assertEqual(error_of(torchsquare.square, 1.0), errors["float"])

    def test_dtypes(self, device):
        errors = {}
        for dtype in (torch.uint16, torch.float8_e4m3fn, torch.uint32, torch.uint64, torch.float8_e5m2):
            x = torch.empty(3, dtype=dtype, device=device)
            errors[f"square, {dtype}"] = error_of(square, x)
            errors[f"square_backward, {dtype}"] = error_of(square_backward, x, x)
            self.assertEqual({kind for kind, _ in errors.values()}, {error_of(torch.square, x)[0]})
        errors = dict(list(errors.items())[:4])
        if device == "cpu":
            self.assertErrors(
                errors,
                """\
square, torch.uint16: NotImplementedError
    torchsquare::square: not implemented for dtype UInt16 on CPU
square_backward, torch.uint16: NotImplementedError
    torchsquare::square_backward: not implemented for dtype UInt16 on CPU
square, torch.float8_e4m3fn: NotImplementedError
    torchsquare::square: not implemented for dtype Float8_e4m3fn on CPU
square_backward, torch.float8_e4m3fn: NotImplementedError
    torchsquare::square_backward: not implemented for dtype Float8_e4m3fn on CPU""",
            )
            x = torch.empty(3, dtype=torch.complex32)
            self.assertEqual(error_of(square, x)[0], error_of(torch.square, x)[0])
        else:
            self.assertErrors(
                errors,
                """\
square, torch.uint16: NotImplementedError
    "torchsquare::square" not implemented for 'UInt16'
square_backward, torch.uint16: NotImplementedError
    "torchsquare::square_backward" not implemented for 'UInt16'
square, torch.float8_e4m3fn: NotImplementedError
    "torchsquare::square" not implemented for 'Float8_e4m3fn'
square_backward, torch.float8_e4m3fn: NotImplementedError
    "torchsquare::square_backward" not implemented for 'Float8_e4m3fn'""",
            )

    def test_layouts(self, device):
        """What torch.square does not take, we do not take, in the same words."""
        dense = torch.eye(3, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # beta features, and deprecated ones
            tensors = {
                "CSR": dense.to_sparse_csr(),
                "CSC": dense.to_sparse_csc(),
                "BSR": dense.to_sparse_bsr((1, 1)),
                "nested": torch.nested.nested_tensor([dense, dense[:2]]),
                "quantized": torch.quantize_per_tensor(dense, 1.0, 0, torch.quint8),
            }
            if device == "cpu":
                tensors["MKLDNN"] = dense.to_mkldnn()
        for x in tensors.values():
            self.assertEqual(error_of(square, x), error_of(torch.square, x))
            self.assertNotEqual(error_of(square, x)[0], "none")

    def test_everything_works_after_an_error(self, device):
        x = torch.ones(3, device=device, requires_grad=True)
        for call in (lambda: square(None), lambda: square_backward(x, x[:2]), lambda: square(x.to(torch.float8_e5m2))):
            self.assertNotEqual(error_of(call)[0], "none")
            (grad,) = torch.autograd.grad(square(x).sum(), x)
            self.assertEqual(grad, backward_formula(torch.ones_like(x), x.detach()))


class TestErrorsOfTwoDevices(TestCase):
    def test_cpu_and_cuda(self, device):
        x = torch.ones(3, device=device)
        kind, text = error_of(square_backward, x.cpu(), x)
        self.assertExpectedInline(
            table({"CPU": (kind, text.replace(device, "<device>"))}),
            """\
CPU: RuntimeError
    torchsquare::square_backward: expected grad_output and self to have the same device, got cpu and <device>""",
        )


instantiate(TestErrors, globals())
instantiate_device_type_tests(TestErrorsOfTwoDevices, globals(), only_for="cuda")
