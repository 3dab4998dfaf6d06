"""What the benchmarks share: contenders, timing, checking, reporting.

Kernel time on the GPU: the launches of a contender, each on buffers of its own, are captured as one CUDA graph, so that
the host costs nothing. CUDA events around a replay time it. Memsets of eight times the L2 cache run right before: no
launch finds its buffers in the cache, and the GPU is busy until the host has queued the replay. A tensor so large that
one set of buffers suffices is timed without a graph, behind the memsets: in a graph the copy engine would do the copies
(and torch.square's backward has one), at two thirds of the speed of the kernel that does them otherwise.

Contenders take turns, so that a drift of the clocks hits all alike; a result is a median over the turns. On the CPU the
launches are timed with the host's clock, in turns as well.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

import torchsquare

Launch = Callable[[], torch.Tensor]
Timer = Callable[[], float]  # seconds
MAX_LAUNCHES = 256


class PythonSquare(torch.autograd.Function):
    """The same two kernels with their autograd in Python: what C++ autograd saves."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.ops.torchsquare.square(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.ops.torchsquare.square_backward(grad_output, x)


FUNCTIONS = {
    "ours": torch.ops.torchsquare.square,
    "torch.square": torch.square,
    "x*x": lambda x: x * x,
    "Function": PythonSquare.apply,
}


class Contender(NamedTuple):
    """What is timed: a launch for each set of buffers, and the right result of the first."""

    launches: list[Launch]
    expected: torch.Tensor


def backward_launch(function: Callable, grad_output: torch.Tensor, x: torch.Tensor) -> Launch:
    """The backward of function(x) alone: runs the forward now, and what autograd recorded at each call."""
    leaf = x.detach().requires_grad_()
    edge = torch.autograd.graph.get_gradient_edge(function(leaf))  # keeps the graph, but not the forward's result
    return lambda: torch.autograd.grad(edge, leaf, grad_output, retain_graph=True)[0]


def check(name: str, result: torch.Tensor, expected: torch.Tensor, **tolerance: float) -> None:
    """Exits with a message unless torch.testing.assert_close holds."""
    try:
        torch.testing.assert_close(result, expected, **tolerance)
    except AssertionError as error:
        sys.exit(f"{name}: wrong result for {expected.dtype}, strides {expected.stride()}: {error}")


def cache_bytes(device: str) -> int:
    """The size of the L2 cache on the GPU; a guess for the CPU."""
    return torch.cuda.get_device_properties().L2_cache_size if device == "cuda" else 2**23


def number_of_sets(x_bytes: int, device: str) -> int:
    """How many sets of buffers to rotate over: inputs of eight times the cache in all, or MAX_LAUNCHES."""
    return min(max(8 * cache_bytes(device) // x_bytes, 1), MAX_LAUNCHES)


def use_side_stream(device: str) -> None:
    """To be called first: the default stream cannot be captured, and a backward runs on the stream of its forward."""
    if device == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream())


def kernel_timer(name: str, contender: Contender, pool: tuple, flush: torch.Tensor) -> Timer:
    """Captures the launches (but a single one), checks what a replay computes, and returns a timer, for one launch."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        # Compiles, loads and initialises what may not be in a capture; and leaves no right result for the next to find.
        contender.launches[0]().fill_(7)
    if len(contender.launches) == 1:
        run = contender.launches[0]
        check(name, run(), contender.expected)
    else:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.current_stream()):
            results = [launch() for launch in contender.launches]  # all held: each launch writes to memory of its own
        for result in results:
            result.fill_(7)  # the pool may hold the right results of another contender
        graph.replay()
        check(name, results[0], contender.expected)
        run = graph.replay

    def timer() -> float:
        for _ in range(4):  # long enough for the host to queue a backward of torch.square
            flush.zero_()
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / len(contender.launches)

    return timer


def host_timer(launches: list[Callable]) -> Timer:
    """Returns a timer of the launches on the host, for one launch. What they queue on the GPU does not count."""

    def timer() -> float:
        start = time.perf_counter()
        for launch in launches:
            launch()
        stop = time.perf_counter()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return (stop - start) / len(launches)

    return timer


def interleave(timers: dict[str, Timer], budget: float) -> dict[str, float]:
    """Runs the timers in turns, 7 to 200 times, for about `budget` seconds each: the medians in microseconds."""
    gc.disable()
    start = time.perf_counter()
    for timer in timers.values():
        timer()
    turns = budget * len(timers) / (time.perf_counter() - start)
    samples = {name: [] for name in timers}
    for _ in range(int(min(max(turns, 7), 200))):
        for name, timer in timers.items():
            samples[name].append(timer())
    gc.enable()
    return {name: 1e6 * statistics.median(seconds) for name, seconds in samples.items()}


def measure(contenders: dict[str, Contender], device: str, budget: float = 0.02) -> dict[str, float]:
    """Checks every contender, then times them against each other, for about `budget` seconds each.

    Returns:
        The median time of one launch in microseconds: kernel time on the GPU, host time on the CPU.
    """
    if device == "cuda":
        flush = torch.empty(8 * cache_bytes(device), dtype=torch.uint8, device=device)
        pool = torch.cuda.graph_pool_handle()  # shared: the graphs run one after another
        timers = {name: kernel_timer(name, contender, pool, flush) for name, contender in contenders.items()}
    else:
        for name, contender in contenders.items():
            check(name, contender.launches[0](), contender.expected)
        timers = {name: host_timer(contender.launches) for name, contender in contenders.items()}
    return interleave(timers, budget)


@dataclass
class Line:
    """A line of the acceptance: the worst of the ratios, by case, against the limit."""

    number: int
    text: str
    limit: float
    ratios: dict[str, float]
    at_least: bool = False

    def verdict(self) -> dict:
        """The worst ratio, as it is printed, where it is, and whether it keeps to the limit; not ok if not measured."""
        if not self.ratios:
            return {"worst": None, "where": "not measured", "ok": False}
        where, worst = (min if self.at_least else max)(self.ratios.items(), key=lambda item: item[1])
        worst = round(worst, 3)  # else a limit of 1.00 is a matter of luck where both run the same kernel
        ok = worst >= self.limit if self.at_least else worst <= self.limit
        return {"worst": worst, "where": where, "ok": ok}


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Prints the cells in columns: those with numbers to the right, others to the left."""
    columns = []
    for column in zip(header, *rows, strict=True):
        width = max(map(len, column))
        is_number = any(cell[:1].isdigit() for cell in column[1:])
        columns.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in column])
    for row in zip(*columns, strict=True):
        print("  ".join(row).rstrip())


def progress(items: list, label: str) -> Iterable:
    """The items, with a progress bar where tqdm is installed and stderr is a terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(items, desc=label, disable=None, leave=False)


def make_parser(docstring: str) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=default, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    parser.add_argument("--check", action="store_true", help="exit with status 1 unless every acceptance line is met")
    return parser


def title(device: str) -> str:
    """What it is measured on."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return f"{name}, torch {torch.__version__}, torchsquare {torchsquare.__version__}"


def finish(args: argparse.Namespace, results: object, lines: list[Line]) -> int:
    """Writes the JSON file and prints the acceptance, as the options say.

    Returns:
        The exit status: 1 with --check where a line is missed or was not measured, or where none is about the device.
    """
    acceptance = [vars(line) | line.verdict() for line in lines]
    if args.json:
        content = {"title": title(args.device), "command": sys.argv, "results": results, "acceptance": acceptance}
        args.json.write_text(json.dumps(content, indent=1) + "\n")
    if not args.check:
        return 0
    print("\nacceptance" if lines else f"\nacceptance: no line is about {args.device}")
    rows = []
    for line in acceptance:
        worst = "-" if line["worst"] is None else f"{line['worst']:.3f}"
        limit = f"{'at least' if line['at_least'] else 'at most'} {line['limit']:.2f}"
        ok = "ok" if line["ok"] else "MISSED"
        rows.append((str(line["number"]), line["text"], str(len(line["ratios"])), worst, limit, ok, line["where"]))
    print_table(("line", "", "cases", "worst", "limit", "", "where"), rows)
    return 0 if lines and all(line["ok"] for line in acceptance) else 1
