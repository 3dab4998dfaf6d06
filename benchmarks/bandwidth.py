"""Forward and backward against a copy: how much of the memory's bandwidth they use, at each size, dtype and layout.

    python benchmarks/bandwidth.py --check --json bandwidth.json --plot bandwidth.png     # a few minutes on an H200
    python benchmarks/bandwidth.py --quick

An elementwise operator can be no faster than the memory. What must be moved, for N bytes of input: 2N in the forward
(X, Y), 3N in the backward (dY, X, dX), 2N in the backward with a gradient of stride 0, which y.sum().backward() sends.
The ceiling is a copy of a contiguous tensor of that size (2N), measured in the same run. Each result is checked against
torch.square before it is timed; common.py says how that is done. The other contenders are x*x; Function, our kernels
with their autograd in Python; inductor, what torch.compile makes of the formulas; naive, one element per CUDA thread.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import common
import torch

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "complex64")
MOVED = {"forward": 2, "backward": 3, "stride-0": 2}  # direction: bytes for each byte of X
BASELINES = ("ours", "torch.square", "copy")
OTHERS = ("x*x", "Function", "inductor", "naive")
RATE, TIME = "rate / copy", "time / torch.square"  # ours over theirs

# A tensor of n elements (a multiple of 4096) in each layout, from a function that makes contiguous tensors.
LAYOUTS = {
    "contiguous": lambda make, n: make(n),
    "misaligned": lambda make, n: make(n + 1)[1:],
    "transposed": lambda make, n: make(n // 1024, 1024).t(),
    "channels_last": lambda make, n: make(n // 4096, 8, 8, 64).permute(0, 3, 1, 2),
    "padded-rows": lambda make, n: make(n // 1024, 1056)[:, :1024],
    "every-second": lambda make, n: make(n, 2)[:, 0],
    "gradient-unlike": lambda make, n: make(1024, n // 1024).t(),  # X: make_buffers
}
LAYOUT_LOG2 = 27  # the size at which those that are not contiguous are compared

# One element per thread, in blocks of 512: how a first CUDA kernel looks.
NAIVE = """
extern "C" __global__ void naive_forward(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
extern "C" __global__ void naive_backward(const float* grad_y, const float* x, float* grad_x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) grad_x[i] = grad_y[i] * 2.0f * x[i];
}
"""


class Case(NamedTuple):
    """One comparison: a key of MOVED, the name of a dtype, a key of LAYOUTS, and 2**log2 elements."""

    direction: str
    dtype: str
    layout: str
    log2: int

    @property
    def x_bytes(self) -> int:
        """N, the bytes of X."""
        return getattr(torch, self.dtype).itemsize << self.log2


@cache
def naive_kernel(name: str) -> Callable:
    """A kernel of NAIVE, compiled at the first call."""
    return torch.cuda._compile_kernel(NAIVE, name)


def naive(*inputs: torch.Tensor) -> torch.Tensor:
    """The naive kernels, of (x,) or (grad_y, x): float32, contiguous, on the GPU."""
    kernel = naive_kernel("naive_forward" if len(inputs) == 1 else "naive_backward")
    result, n = torch.empty_like(inputs[0]), inputs[0].numel()
    kernel(grid=((n + 511) // 512, 1, 1), block=(512, 1, 1), args=[*inputs, result, n])
    return result


def inductor(direction: str) -> Callable:
    """Inductor's kernel for one size, a function of (x,) or (grad_y, x)."""
    torch.compiler.reset()  # Dynamo gives up on a function after a few sizes
    formula = (lambda x: x * x) if direction == "forward" else (lambda grad_y, x: 2 * grad_y * x)
    return torch.compile(formula, dynamic=False)


def why_unavailable(name: str, device: str) -> str | None:
    """Why the optional contender cannot run on this machine, or None."""
    if name == "naive" and device == "cpu":
        return "it is a CUDA kernel"
    try:
        (naive if name == "naive" else inductor("forward"))(torch.ones(512, device=device))
    except Exception as error:  # whatever it lacks, the others can run
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return None


def takes_part(name: str, case: Case) -> bool:
    """Whether the contender runs in the case: those that prove one point prove it for contiguous float32."""
    if name == "naive" and case.direction == "stride-0":
        return False
    return name in (*BASELINES, "x*x") or (case.dtype, case.layout) == ("float32", "contiguous")


def make_buffers(case: Case, device: str) -> list[tuple[torch.Tensor, ...]]:
    """Random sets of (x,) for the forward and of (grad_output, x) for the backward, to rotate over."""

    def make(*shape: int) -> torch.Tensor:
        return torch.testing.make_tensor(shape, dtype=getattr(torch, case.dtype), device=device, low=-9, high=9)

    def make_set() -> tuple[torch.Tensor, ...]:
        x = make(n // 1024, 1024) if case.layout == "gradient-unlike" else LAYOUTS[case.layout](make, n)
        if case.direction == "forward":
            return (x,)
        return (make().expand(x.shape) if case.direction == "stride-0" else LAYOUTS[case.layout](make, n), x)

    n = 1 << case.log2
    return [make_set() for _ in range(common.number_of_sets(case.x_bytes, device))]


def make_launches(name: str, case: Case, buffers: list[tuple[torch.Tensor, ...]]) -> list[common.Launch]:
    """What the contender has to do, for each set of buffers."""
    if name == "copy":
        xs = [tensors[-1] for tensors in buffers]
        if case.layout != "contiguous":
            xs = [x.clone(memory_format=torch.contiguous_format) for x in xs]
        return [x.clone for x in xs]
    if name in common.FUNCTIONS and case.direction != "forward":
        return [common.backward_launch(common.FUNCTIONS[name], *tensors) for tensors in buffers]
    function = common.FUNCTIONS.get(name) or (naive if name == "naive" else inductor(case.direction))
    return [partial(function, *tensors) for tensors in buffers]


def run(case: Case, names: list[str], device: str) -> dict:
    """Times the contenders that take part in the case.

    Returns:
        The case; for each contender the median time in microseconds and the rate in GB/s; RATE and TIME.
    """
    buffers = make_buffers(case, device)
    expected = make_launches("torch.square", case, buffers[:1])[0]()
    contenders = {}
    for name in filter(lambda name: takes_part(name, case), names):
        launches = make_launches(name, case, buffers)
        contenders[name] = common.Contender(launches, buffers[0][-1] if name == "copy" else expected)
    us = common.measure(contenders, device)
    moved = {name: case.x_bytes * MOVED["forward" if name == "copy" else case.direction] for name in us}
    rates = {name: moved[name] / us[name] / 1e3 for name in us}
    ratios = {RATE: rates["ours"] / rates["copy"], TIME: us["ours"] / us["torch.square"]}
    return {**case._asdict(), "x_bytes": case.x_bytes, "us": us, "GB/s": rates, **ratios}


def acceptance(results: list[dict]) -> list[common.Line]:
    """The lines on bandwidth, each over all results that it is about."""

    def line(number: int, text: str, ratio: str, limit: float, chosen: list[dict], *directions: str) -> common.Line:
        chosen = [r for r in chosen if r["direction"] in directions]
        ratios = {"{direction} {dtype} {layout} 2^{log2}".format(**r): r[ratio] for r in chosen}
        return common.Line(number, f"{text}: {ratio}", limit, ratios, at_least=ratio == RATE)

    def layouts(*names: str) -> list[dict]:
        return [r for r in results if r["layout"] in names and 1 << r["log2"] >= 10**8]

    every = [r for r in results if r["layout"] == "contiguous"]
    large = [r for r in every if r["x_bytes"] >= 256 * 2**20]
    float64 = [r for r in large if r["dtype"] == "float64"]
    others = [r for r in large if r["dtype"] != "float64"]
    return [
        line(1, "forward, 256 MiB and more", RATE, 0.99, large, "forward"),
        line(2, "backward, 256 MiB and more", RATE, 1.00, large, "backward"),
        line(2, "backward, 256 MiB and more", TIME, 0.42, large, "backward"),
        line(3, "stride-0, 256 MiB and more", TIME, 0.30, others, "stride-0"),
        line(3, "stride-0, float64", TIME, 0.33, float64, "stride-0"),
        line(4, "forward, every size", TIME, 1.03, every, "forward"),
        line(4, "backward, every size", TIME, 0.60, every, "backward", "stride-0"),
        line(5, "misaligned, forward", TIME, 1.03, layouts("misaligned"), "forward"),
        line(5, "padded-rows, forward", TIME, 0.80, layouts("padded-rows"), "forward"),
        line(5, "every-second, forward", TIME, 0.95, layouts("every-second"), "forward"),
        line(5, "other layouts, forward", TIME, 1.05, layouts("transposed", "channels_last"), "forward"),
        line(5, "each layout, backward", TIME, 0.50, layouts(*(LAYOUTS.keys() - {"contiguous"})), "backward"),
    ]


def plot(results: list[dict], file: str, title: str) -> None:
    """Draws GB/s over size for contiguous float32: a panel for each direction, a line for each contender."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    panels = figure.subplots(1, len(MOVED), sharey=True)
    chosen = [r for r in results if (r["dtype"], r["layout"]) == ("float32", "contiguous")]
    for axes, direction in zip(panels, MOVED, strict=True):
        rates = {1 << r["log2"]: r["GB/s"] for r in chosen if r["direction"] == direction}
        for number, name in enumerate(BASELINES + OTHERS):
            points = [(numel, rate[name]) for numel, rate in rates.items() if name in rate]
            style = {"color": "black", "ls": "--"} if name == "copy" else {"color": f"C{number}", "marker": "."}
            if points:
                axes.plot(*zip(*points, strict=True), label=name, **style)
        axes.set_xscale("log", base=2)
        axes.set(title="backward, gradient of stride 0" if direction == "stride-0" else direction, xlabel="elements")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("GB/s")
    panels[0].legend()
    figure.suptitle(f"float32, contiguous: {title}")
    figure.savefig(file, dpi=120)


def parse_arguments() -> argparse.Namespace:
    """The options; `sizes` becomes the range of exponents."""
    parser = common.make_parser(__doc__)
    for option, known in {"--dtypes": DTYPES, "--layouts": tuple(LAYOUTS), "--contenders": OTHERS}.items():
        parser.add_argument(option, nargs="*", choices=known, default=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--sizes", metavar="LOW:HIGH", help="2^LOW to 2^HIGH elements; default: 10:30, CPU: 10:22")
    parser.add_argument("--step", type=int, default=2, help="of the exponent; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="float32 only, with a step of 6")
    parser.add_argument("--plot", metavar="FILE.png", help="draw GB/s over size (needs matplotlib)")
    args = parser.parse_args()
    if args.quick:
        args.dtypes, args.step = ("float32",), 6
    low, high = map(int, (args.sizes or {"cuda": "10:30", "cpu": "10:22"}[args.device]).split(":"))
    if not 10 <= low <= high <= 30:
        parser.error(f"--sizes: expected 10 <= LOW <= HIGH <= 30, got {args.sizes}")
    args.sizes = range(low, high + 1, args.step)
    return args


def make_cases(args: argparse.Namespace) -> list[Case]:
    """Contiguous tensors at every size, the other layouts at one. Integers have no backward."""
    cases = []
    for layout in args.layouts:
        sizes = args.sizes if layout == "contiguous" else [max(12, min(LAYOUT_LOG2, args.sizes.stop - 1))]
        directions = {"contiguous": MOVED, "gradient-unlike": ["backward"]}.get(layout, ["forward", "backward"])
        cases += [Case(*case) for case in product(directions, args.dtypes, [layout], sizes)]
    return [case for case in cases if case.direction == "forward" or not case.dtype.startswith("int")]


def main() -> int:
    args = parse_arguments()
    common.use_side_stream(args.device)
    names = [*BASELINES, *args.contenders]
    for name in {"inductor", "naive"}.intersection(names):
        if reason := why_unavailable(name, args.device):
            print(f"{name} is left out: {reason}")
            names.remove(name)
    results = [run(case, names, args.device) for case in common.progress(make_cases(args), "bandwidth")]

    title = common.title(args.device)
    rows = []
    for r in results:
        cells = [f"{r['GB/s'][name]:.1f}" if name in r["GB/s"] else "" for name in names]
        case = (r["direction"], r["dtype"], r["layout"], f"2^{r['log2']}")
        rows.append((*case, *cells, f"{r[RATE]:.3f}", f"{r[TIME]:.3f}"))
    print(f"{title}: GB/s, and ours over theirs")
    common.print_table(("direction", "dtype", "layout", "size", *names, RATE, TIME), rows)
    if args.plot:
        plot(results, args.plot, title)
    return common.finish(args, results, acceptance(results) if args.device == "cuda" else [])


if __name__ == "__main__":
    sys.exit(main())
