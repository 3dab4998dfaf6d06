"""More than 2^31 elements, and views whose offsets pass 2^31. They take up to 40 GB of a GPU and run when asked for:

pytest -m large
"""

import pytest
import torch
from common import backward_formula, square, square_backward
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize

pytestmark = pytest.mark.large

MANY = 2**31 + 5


def random_bytes(*shape, device):
    return torch.empty(shape, dtype=torch.int8, device=device).random_(-128, 128)


def random_halves(*shape, device):
    return torch.empty(shape, dtype=torch.float16, device=device).normal_()


class TestLarge(TestCase):
    def tearDown(self):
        torch.cuda.empty_cache()
        super().tearDown()

    def assertSame(self, ours, theirs):
        self.assertEqual(ours.stride(), theirs.stride())
        self.assertTrue(torch.equal(ours, theirs))  # assertEqual would take another 100 GB for its message

    def test_dense(self, device):
        x = random_bytes(MANY, device=device)
        self.assertSame(square(x), torch.square(x))

    def test_misaligned(self, device):
        x = random_bytes(MANY + 1, device=device)[1:]
        self.assertSame(square(x), torch.square(x))

    def test_bool(self, device):
        x = random_bytes(MANY, device=device) > 0
        self.assertSame(square(x), torch.square(x))

    @parametrize("shape", [(MANY, 2), (2, MANY)])
    def test_every_second(self, device, shape):
        x = random_bytes(*shape, device=device)[..., ::2]
        self.assertSame(square(x), torch.square(x))

    def test_expanded(self, device):
        x = random_bytes(1, 5, device=device).expand(MANY // 4, 5)
        self.assertSame(square(x), torch.square(x))

    @parametrize("expanded", [False, True])
    def test_backward(self, device, expanded):
        x = random_halves(MANY, device=device)
        grad = random_halves(1, device=device).expand(MANY) if expanded else random_halves(MANY, device=device)
        expected = backward_formula(grad, x)
        self.assertSame(square_backward(grad, x), expected)
        x.requires_grad_()
        self.assertSame(torch.autograd.grad(square(x), x, grad)[0], expected)

    def test_backward_of_a_transposed_gradient(self, device):
        x = random_halves(MANY // 2 + 1, 2, device=device)
        grad = random_halves(2, MANY // 2 + 1, device=device).t()
        self.assertSame(square_backward(grad, x), backward_formula(grad, x))

    @parametrize("dtype", [torch.int8, torch.float32])
    def test_few_elements_far_apart(self, device, dtype):
        storage = random_bytes(3 * 2**31, device=device)
        storage = storage.view(dtype) if dtype == torch.int8 else storage.view(torch.int32).to(dtype)
        step = 2**31 // storage.itemsize + 3
        views = (
            storage[::step],
            storage[-5:],
            storage.as_strided((2, 7), (step, 3)),
            storage.as_strided((7, 2), (3, step)),
        )
        for x in views:
            self.assertSame(square(x), torch.square(x))
            grad = x.flip(0)
            self.assertSame(square_backward(grad, x), backward_formula(grad, x))
            self.assertSame(square_backward(x, grad), backward_formula(x, grad))


instantiate_device_type_tests(TestLarge, globals(), only_for="cuda")
