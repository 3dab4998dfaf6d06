"""What a call costs beside the kernel: host time at 64 elements, CPU time at 10^6, import time, memory of a backward.

    python benchmarks/overhead.py --check                  # on the GPU: host time per call, peak memory
    python benchmarks/overhead.py --check --device cpu     # on two threads: host time per call, time at 10^6 elements

Small tensors are bound by what the host does before the kernel starts: Python, the dispatcher, autograd, allocation.
The contenders take turns; each result is checked against torch.square before it is timed.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import common
import torch

NAMES = ("torch.square", "ours", "Function")  # Function: torch.autograd.Function in Python over our kernels
Times = dict[str, dict[str, float]]  # microseconds by case and contender


def forward_and_backward(function: Callable, grad_output: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of function(x)."""
    return torch.autograd.grad(function(x), x, grad_output)[0]


def host_times(device: str) -> Times:
    """Host time per call at 64 elements, for each mode."""
    grad_output, x = torch.randn(2, 64, device=device)
    leaf = x.clone().requires_grad_()
    modes = {
        "no grad": lambda function: partial(function, x),
        "grad": lambda function: partial(function, leaf),
        "forward + backward": lambda function: partial(forward_and_backward, function, grad_output, leaf),
    }
    times = {}
    for mode in common.progress(list(modes), "host time"):
        calls = {name: modes[mode](common.FUNCTIONS[name]) for name in NAMES}
        for name, call in calls.items():
            common.check(name, call().detach(), calls["torch.square"]().detach())
        timers = {name: common.host_timer([call] * 100) for name, call in calls.items()}
        times[mode] = common.interleave(timers, budget=2)
    return times


def cpu_times() -> Times:
    """CPU time at 10^6 elements, for each direction and dtype ("forward float32")."""
    times = {}
    for dtype in common.progress([torch.float32, torch.float64, torch.bfloat16, torch.float16], "CPU time"):
        sets = common.number_of_sets(dtype.itemsize * 10**6, "cpu")
        buffers = [torch.randn(2, 10**6, dtype=dtype).unbind() for _ in range(sets)]
        directions = {
            "forward": lambda function, grad_output, x: partial(function, x),
            "backward": common.backward_launch,
        }
        for direction, make_launch in directions.items():
            contenders = {}
            for name in ("torch.square", "ours"):
                launches = [make_launch(common.FUNCTIONS[name], *pair) for pair in buffers]
                contenders[name] = common.Contender(launches, make_launch(torch.square, *buffers[0])())
            times[f"{direction} {str(dtype).removeprefix('torch.')}"] = common.measure(contenders, "cpu", budget=1)
    return times


def peak_memory(function: Callable) -> float:
    """The memory that a backward takes on the GPU, its result included, in multiples of the input's."""
    x = torch.randn(2**26, device="cuda", requires_grad=True)
    y = function(x)
    grad_output = torch.ones_like(y)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(y, x, grad_output)
    return (torch.cuda.max_memory_allocated() - before) / x.nbytes


def import_time() -> float:
    """The median time of `import torchsquare` where torch is imported already, in milliseconds."""
    code = "import time, torch; t = time.perf_counter(); import torchsquare; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(5)]
    return 1e3 * statistics.median(float(run.stdout) for run in runs)


def ratios(times: Times, *cases: str, to: str = "torch.square") -> dict[str, float]:
    """Ours over another contender, for each case."""
    return {case: times[case]["ours"] / times[case][to] for case in cases}


def print_times(title: str, times: Times) -> None:
    """Prints a table of microseconds: a row for each case, a column for each contender."""
    names = list(next(iter(times.values())))
    rows = []
    for case, us in times.items():
        rows.append((case, *(f"{us[name]:.2f}" for name in names), f"{us['ours'] / us['torch.square']:.3f}"))
    print(f"\n{title}, µs")
    common.print_table(("", *names, "ours / torch.square"), rows)


def main() -> int:
    args = common.make_parser(__doc__).parse_args()
    if args.device == "cpu":
        torch.set_num_threads(2)
    print(common.title(args.device))
    results = {"import_ms": import_time(), "host_us": host_times(args.device)}
    print(f"import torchsquare, beyond torch: {results['import_ms']:.1f} ms")
    print_times("host time per call, 64 elements", results["host_us"])
    host = partial(ratios, results["host_us"])

    if args.device == "cuda":
        memory = results["peak_memory"] = {name: peak_memory(common.FUNCTIONS[name]) for name in NAMES}
        print("\npeak extra memory of a backward, times the input")
        common.print_table(NAMES, [[f"{times_input:.2f}" for times_input in memory.values()]])
        lines = [
            common.Line(6, "extra memory of a backward, times the input", 1.00, {"2^26 floats": memory["ours"]}),
            common.Line(8, "host time, no grad", 1.05, host("no grad")),
            common.Line(8, "host time, grad", 1.25, host("grad")),
            common.Line(8, "host time, forward + backward", 1.00, host("forward + backward")),
            common.Line(8, "host time, grad, of a Python autograd.Function's", 0.72, host("grad", to="Function")),
        ]
    else:
        times = results["cpu_us"] = cpu_times()
        print_times("time, 10^6 elements", times)
        half = "forward float16"
        forward = [case for case in times if case.startswith("forward") and case != half]
        backward = [case for case in times if case.startswith("backward")]
        lines = [
            common.Line(9, "forward, 10^6 elements", 1.10, ratios(times, *forward)),
            common.Line(9, "forward, 10^6 elements, float16", 0.15, ratios(times, half)),
            common.Line(9, "backward, 10^6 elements", 0.70, ratios(times, *backward)),
            common.Line(9, "host time, no grad", 1.45, host("no grad")),
            common.Line(9, "host time, grad", 1.80, host("grad")),
            common.Line(9, "host time, forward + backward", 1.10, host("forward + backward")),
        ]
    return common.finish(args, results, lines)


if __name__ == "__main__":
    sys.exit(main())
