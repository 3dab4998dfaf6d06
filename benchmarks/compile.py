"""A training step with square in it, eager and under torch.compile: is the operator a barrier to fusion?

    python benchmarks/compile.py --check               # on the GPU: 2^24 floats, kernel time
    python benchmarks/compile.py --device cpu          # 10^6 floats

The step is relu(0.5 * f(x) + 1).sum() and its backward. Compiled, each way is one pass over the memory if Inductor can
see through f, and several if it cannot. Loss and gradient are checked against torch.square's before they are timed.
"""

import sys
from collections.abc import Callable
from functools import partial

import common
import torch

NAMES = ("torch.square", "ours")


def make_loss(function: Callable) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model: a loss of x with the function in it."""
    return lambda x: torch.relu(0.5 * function(x) + 1).sum()


def gradient(loss: Callable, x: torch.Tensor) -> torch.Tensor:
    """One training step: the gradient of loss(x)."""
    return torch.autograd.grad(loss(x), x)[0]


def main() -> int:
    args = common.make_parser(__doc__).parse_args()
    common.use_side_stream(args.device)
    numel = 2**24 if args.device == "cuda" else 10**6
    sets = common.number_of_sets(4 * numel, args.device)
    xs = [torch.randn(numel, device=args.device, requires_grad=True) for _ in range(sets)]
    losses = {"eager": {name: make_loss(common.FUNCTIONS[name]) for name in NAMES}}
    losses["compiled"] = {name: torch.compile(loss, dynamic=False) for name, loss in losses["eager"].items()}

    reference = losses["eager"]["torch.square"]
    expected_loss, expected = reference(xs[0]).detach(), gradient(reference, xs[0])
    contenders = {}
    for mode, name in [(mode, name) for mode in losses for name in NAMES]:
        loss = losses[mode][name]
        common.check(f"{name}, {mode}", loss(xs[0]).detach(), expected_loss, rtol=1e-5, atol=0)
        contenders[f"{name}, {mode}"] = common.Contender([partial(gradient, loss, x) for x in xs], expected)
    us = common.measure(contenders, args.device, budget=1)

    lines, rows = [], []
    for mode, limit in {"compiled": 1.00, "eager": 0.85}.items():
        times = [us[f"{name}, {mode}"] for name in NAMES]
        ratio = times[1] / times[0]
        rows.append((mode, *(f"{time:.1f}" for time in times), f"{ratio:.3f}"))
        lines.append(common.Line(7, f"training step, {mode}", limit, {f"{numel} floats": ratio}))
    print(f"{common.title(args.device)}: training step, {numel} floats, µs")
    common.print_table(("", *NAMES, "ours / torch.square"), rows)
    return common.finish(args, {"numel": numel, "us": us}, lines if args.device == "cuda" else [])


if __name__ == "__main__":
    sys.exit(main())
