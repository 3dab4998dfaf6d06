"""Random inputs of every kind, each compared with torch.square: 500 a device in the suite, any number as a command.

    python test/test_fuzz.py --cases 100000 --seed 0 --device cpu

Case number i has the seed `seed + i`, from which alone it follows, on every device. Exit status: 1 on a mismatch.
"""

import argparse
import itertools
import random
import sys
import time

import torch
from common import DTYPES, TestCase, dtypes_on, instantiate

ops = torch.ops.torchsquare

LAYOUTS = ("contiguous", "permuted", "stepped", "expanded", "overlapping")
VALUES = ("moderate", "special", "bits")
VIEWS = ("plain", "plain", "plain", "flip", "conj", "neg")
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 16, 17, 31, 32, 33)
INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# The generator. All chance comes from one random.Random, so that a seed means the same on every device.


def random_values(rng, kind, dtype, numel):
    """A one-dimensional CPU tensor of moderate numbers, of moderate and special ones, or of any bits at all."""
    if dtype.is_complex:
        return random_values(rng, kind, dtype.to_real(), 2 * numel).view(dtype)

    def random_bits(dtype):
        return torch.frombuffer(bytearray(rng.randbytes(numel * dtype.itemsize)), dtype=dtype)

    if dtype == torch.bool:
        return random_bits(torch.int8) < 0
    if kind == "bits" or not dtype.is_floating_point:
        return random_bits(dtype)
    moderate = (random_bits(torch.int64) * 2.0**-60).to(dtype)  # |x| <= 8, with all the digits that the dtype has
    if kind == "moderate":
        return moderate
    info = torch.finfo(dtype)
    special = [0.0, 1.0, torch.inf, torch.nan, info.max, info.max / 2, info.max**0.5, info.tiny, info.tiny / 64]
    special = torch.tensor(special + [-value for value in special], dtype=torch.float64).to(dtype)
    choice = random_bits(torch.uint8).long()
    return torch.where(choice < 64, special[choice % len(special)], moderate)


def random_strides(rng, layout, shape):
    strides, extent = [0] * len(shape), 1
    order = list(reversed(range(len(shape))))  # from the innermost dimension outwards
    if layout != "contiguous":
        rng.shuffle(order)
    for dim in order:
        step = rng.choice((1, 1, 2, 3)) if layout == "stepped" and extent < 2**16 else 1
        strides[dim] = extent * step
        extent *= max(shape[dim], 1) * step
        if layout == "expanded" and rng.random() < 0.5:
            strides[dim] = 0
        if layout == "overlapping":
            strides[dim] = rng.randrange(4)
    return strides


def random_tensor(rng, shape, dtype, device):
    """A tensor, its layout, and the words that describe it."""
    layout, values, view = rng.choice(LAYOUTS), rng.choice(VALUES), rng.choice(VIEWS)
    strides, offset = random_strides(rng, layout, shape), rng.choice((0, 0, rng.randrange(17)))
    numel = offset + 1 + sum(max(size - 1, 0) * stride for size, stride in zip(shape, strides, strict=True))
    tensor = random_values(rng, values, dtype, numel).to(device).as_strided(shape, strides, offset)
    if view == "flip" and shape and dtype != torch.complex32:
        tensor = tensor.flip(rng.randrange(len(shape)))
    elif view == "conj":
        tensor = tensor.conj()
    elif view == "neg" and dtype != torch.bool:
        tensor = torch._neg_view(tensor)
    words = f"{values} {layout} {view}, strides {list(tensor.stride())}, offset {tensor.storage_offset()}"
    return tensor, layout, words


def random_shape(rng):
    shape = [rng.choice(SIZES) for _ in range(rng.randrange(7))]
    limit = 1024
    if rng.random() < 0.005:
        shape, limit = [rng.randrange(1000, 100_000), *shape[:2]], 200_000
    numel = 1
    for dim, size in enumerate(shape):
        shape[dim] = size if numel * size <= limit else 1
        numel *= max(shape[dim], 1)
    rng.shuffle(shape)
    return shape


def random_case(seed, device):
    """An input, a gradient of its shape and dtype, their layouts, and the words that describe them."""
    rng = random.Random(seed)
    dtype, shape = rng.choice(DTYPES), random_shape(rng)
    if dtype not in dtypes_on(device):
        dtype = torch.complex64  # instead of complex32
    x, x_layout, about_x = random_tensor(rng, shape, dtype, device)
    grad, grad_layout, about_grad = random_tensor(rng, shape, dtype, device)
    return x, grad, (x_layout, grad_layout), f"{dtype} {shape}; x: {about_x}; grad: {about_grad}"


# The comparison.


def wide(tensor):
    """The tensor as complex128 on the CPU. On CUDA torch.square of complex numbers is a pow, less exact than x·x."""
    return tensor.resolve_conj().resolve_neg().cpu().to(torch.complex128)


def gradient(square, x, grad):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(square(x), x, grad)[0]


def equal_bits(ours, theirs):
    """Elementwise: the same number, with the same sign if it is zero. Any nan equals any nan."""
    if ours.is_complex():
        return equal_bits(torch.view_as_real(ours), torch.view_as_real(theirs)).all(-1)
    if not ours.is_floating_point():
        return ours == theirs
    integer = INTEGER_OF_SIZE[ours.itemsize]
    return (ours.view(integer) == theirs.view(integer)) | (ours.isnan() & theirs.isnan())


def product_agrees(ours, theirs, factor, x, scale):
    """Elementwise, complex: whether `ours`, which is scale·factor·x, is `theirs` as exactly as its dtype allows.

    A part of a product is a sum of two products, such as ac - bd, one of which a compiler may fuse into the sum. So the
    last bits are nobody's promise: each side may be off by two roundings of |ac| + |bd|, or of the smallest number.
    """
    info = torch.finfo(ours.dtype.to_real())
    ours, theirs, factor, x = (torch.view_as_real(wide(tensor)) for tensor in (ours, theirs, factor, x))
    (a, b), (c, d) = factor.abs().unbind(-1), x.abs().unbind(-1)
    size = scale * torch.stack((a * c + b * d, a * d + b * c), -1)
    close = (ours - theirs).abs() <= 2 * info.eps * size + 3 * info.tiny * info.eps
    # Whether a sum of numbers that are too large is inf, nan or finite is up to the fusion, too. And 2x overflows in
    # torch.square's gradient where ours may be finite.
    too_large = (size > info.max) | (2 * x).isinf().any(-1, keepdim=True)
    finite = (factor.isfinite() & x.isfinite()).all(-1, keepdim=True)
    return torch.where(finite, close | too_large, ~ours.isfinite()).all(-1)


def square_agrees(ours, theirs, x):
    if x.is_complex():
        return product_agrees(ours, torch.square(wide(x)), x, x, scale=1)
    return equal_bits(ours, theirs)


def gradient_agrees(ours, theirs, x, grad):
    """Elementwise: whether 2·(g·x) is torch.square's g·(2x). Both round once, so they are equal but in two cases."""
    if x.is_complex():
        return product_agrees(ours, gradient(torch.square, wide(x), wide(grad)), grad, wide(x).conj(), scale=2)
    info = torch.finfo(x.dtype)
    # 2x overflows in torch.square. The gradient is linear in x, and scaling by a power of two is exact.
    overflows = x.abs() > info.max / 2
    if overflows.any():
        theirs = torch.where(overflows, 4 * gradient(torch.square, x / 4, grad), theirs)
    # g·x is subnormal: its rounding error, half of the smallest number, is doubled. (The product of two halves is a
    # float, and not subnormal.)
    smallest = 0 if x.dtype == torch.float16 else info.tiny * info.eps
    subnormal = (ours.abs() <= 2 * info.tiny) & (theirs.abs() <= 2 * info.tiny)
    return equal_bits(ours, theirs) | (subnormal & (ours != theirs) & ((ours - theirs).abs() <= smallest))


def meaningful_strides(tensor):
    """The strides that address anything. Which others a gradient has depends on the copies that are made on the way."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()]


def expect_same(what, ours, theirs, agrees=None, strides=None):
    """Raises unless the tensors are alike: dtype, device, shape, and those of strides and values that are asked for."""
    properties = {"dtype": lambda t: t.dtype, "device": lambda t: t.device, "shape": lambda t: t.shape}
    if strides is not None:
        properties["strides"] = strides
    for name, of in properties.items():
        if of(ours) != of(theirs):
            raise AssertionError(f"{what}: {name} {of(ours)} instead of {of(theirs)}")
    if agrees is not None and not (right := agrees(ours, theirs)).all():
        index = tuple((~right).nonzero()[0].tolist())
        count = f"{(~right).sum()} of {right.numel()} values differ"
        raise AssertionError(f"{what}: {count}, at {list(index)} {ours[index]} instead of {theirs[index]}")


def check(x, grad, layouts, square, square_backward):
    """Raises unless the operators do with x and grad what torch.square does."""
    is_differentiable = x.is_floating_point() or x.is_complex()
    expect_same("square", square(x), torch.square(x), lambda *ys: square_agrees(*ys, x), torch.Tensor.stride)
    direct = square_backward(grad, x)
    if not x.is_complex():  # the strides are those of one product (on the way to which conj may copy)
        agrees = None if is_differentiable else equal_bits
        expect_same("square_backward", direct, grad * x * 2, agrees, meaningful_strides)
    if is_differentiable:
        # torch.square's gradient is the product of `grad` and a dense copy of x. The dimensions of both are in the same
        # order if x is dense, or if `grad` alone decides; dimensions of size 1 can upset the sorting.
        same_order = 1 not in x.shape and not {"contiguous", "permuted"}.isdisjoint(layouts)
        strides = meaningful_strides if same_order else None
        theirs = gradient(torch.square, x, grad)
        expect_same("square_backward", direct, theirs, lambda *dxs: gradient_agrees(*dxs, x, grad), strides)
        expect_same("gradient", gradient(square, x, grad), direct, equal_bits, torch.Tensor.stride)


def run(seeds, device, square=ops.square, square_backward=ops.square_backward):
    """Checks the case of every seed; yields a text for each mismatch."""
    for seed in seeds:
        x, grad, layouts, about = random_case(seed, device)
        try:
            check(x, grad, layouts, square, square_backward)
        except Exception as error:  # an operator that throws is a mismatch like any other
            reproduce = f"python test/test_fuzz.py --seed {seed} --cases 1 --device {device}"
            yield f"{type(error).__name__}: {error}\n    {about}\n    {reproduce}"


def flip_last(tensor):
    """Flips the lowest bit of the tensor's last element, in place."""
    if tensor.numel():
        tensor[(-1,) * tensor.ndim].unsqueeze(0).view(torch.uint8)[0] ^= 1
    return tensor


def only_for(kind, faulty):
    return lambda grad, x: faulty(grad, x) if kind(x) else ops.square_backward(grad, x)


# Operators with a fault, which the comparison must notice.
FAULTS = {
    "square: last element wrong": lambda x: flip_last(ops.square(x)),
    "square: bool stays bool": lambda x: x * x,
    "square: strides not kept": lambda x: ops.square(x.contiguous()),
    "square_backward: last element wrong": lambda grad, x: flip_last(ops.square_backward(grad, x)),
    "square_backward: not doubled": lambda grad, x: grad * x.conj() * 1,
    "square_backward: strides not kept": lambda grad, x: ops.square_backward(grad, x).contiguous(),
    "square_backward: no conj": only_for(torch.is_complex, lambda grad, x: ops.square_backward(grad, x.conj())),
    "square_backward: doubled first": only_for(torch.is_floating_point, lambda grad, x: grad * (x * 2)),
    "square_backward: rounded twice": only_for(lambda x: x.dtype == torch.half, lambda grad, x: grad * x * 2),
}


class TestFuzz(TestCase):
    seeds = range(500)

    def test_agrees_with_torch_square(self, device):
        mismatches = list(run(self.seeds, device))
        self.assertFalse(mismatches, "\n".join(mismatches))

    def test_notices_faults(self, device):
        for fault, faulty in FAULTS.items():
            with self.subTest(fault=fault):
                operator = fault.split(":")[0]
                mismatches = run(self.seeds, device, **{operator: faulty})
                self.assertTrue(any(text.startswith(f"AssertionError: {operator}:") for text in mismatches))

    def test_cases_are_of_every_kind(self, device):
        cases = [random_case(seed, device) for seed in self.seeds]
        self.assertEqual({x.dtype for x, *_ in cases}, set(dtypes_on(device)))
        self.assertEqual({x.ndim for x, *_ in cases}, set(range(7)))
        self.assertEqual({layouts for _, _, layouts, _ in cases}, set(itertools.product(LAYOUTS, LAYOUTS)))
        words = {word.strip(",") for *_, about in cases for word in about.split()}
        self.assertEqual({*VALUES, *VIEWS} - words, set())
        self.assertEqual(min(x.numel() for x, *_ in cases), 0)
        self.assertGreater(max(x.numel() for x, *_ in cases), 10_000)


instantiate(TestFuzz, globals())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    mismatches, start, chunk = 0, time.monotonic(), 5000
    for first in range(args.seed, args.seed + args.cases, chunk):
        last = min(first + chunk, args.seed + args.cases)
        for mismatch in run(range(first, last), args.device):
            print(mismatch, flush=True)
            mismatches += 1
        print(f"{last - args.seed} cases, {mismatches} mismatches, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
