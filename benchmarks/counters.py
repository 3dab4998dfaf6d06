"""What the memory does during a kernel, from the GPU's own counters: where a ratio of bandwidth.py cannot be better.

    python benchmarks/counters.py            # needs ncu (Nsight Compute) and the right to read the counters

Each case is one of bandwidth.py, with its buffers. N is the bytes of X. "DRAM time" is the share of the time in which
the memory was at work: at about 0.9, which a copy reaches, only fewer bytes make a kernel faster. ncu counts kernels
alone: torch.square's backward of a dense tensor also has a copy, of N read and N written, which is missing here. The
clocks are left as they are; the caches are flushed before each kernel.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from collections import defaultdict

import common
import torch
from bandwidth import Case, make_buffers, make_launches

CASES = [
    Case(direction, dtype, layout, log2)
    for direction, layout, log2, dtypes in (
        ("forward", "contiguous", 28, ("float32", "float64")),
        ("backward", "contiguous", 28, ("float32", "float64")),
        ("forward", "padded-rows", 27, ("float32", "float64")),
        ("forward", "every-second", 27, ("float32", "float64")),
        ("backward", "every-second", 27, ("float16", "float32", "float64")),
    )
    for dtype in dtypes
]
CONTENDERS = ("torch.square", "ours")
METRICS = {
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "busy": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "ns": "gpu__time_duration.sum",
}


def launch_all() -> None:
    """Launches each contender once in each case, between the marks that ncu waits for."""
    for case in CASES:
        buffers = make_buffers(case, "cuda")[:1]
        for name in CONTENDERS:
            (launch,) = make_launches(name, case, buffers)
            launch()
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                launch()
                torch.cuda.synchronize()


def read_counters() -> list[dict[str, float]]:
    """Runs launch_all under ncu: the metrics of each kernel, in the order of the launches, with its name."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as log:
        options = ["--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
        options += ["--clock-control", "none", "--metrics", ",".join(METRICS.values()), "--log-file", log.name]
        subprocess.run(["ncu", *options, sys.executable, __file__, "--launch"], check=True)
        with open(log.name) as file:
            lines = [line for line in file if line.startswith('"')]  # others are ncu's messages
    rows = list(csv.DictReader(lines))[1:]  # the first holds the units
    return [
        {key: float(row[metric].replace(",", "")) for key, metric in METRICS.items()} | {"name": row["Kernel Name"]}
        for row in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launch", action="store_true", help="only launch the kernels, for ncu")
    if parser.parse_args().launch:
        launch_all()
        return 0

    kernels = iter(read_counters())
    rows = []
    for case in CASES:
        group = defaultdict(list)  # torch.square runs before ours, which is one kernel with our name in it
        while not group["ours"]:
            kernel = next(kernels)
            group["ours" if "torchsquare" in kernel["name"] else "torch.square"].append(kernel)
        for name in CONTENDERS:
            ns = sum(kernel["ns"] for kernel in group[name])
            read, written = (sum(kernel[key] for kernel in group[name]) / case.x_bytes for key in ("read", "written"))
            busy = sum(kernel["busy"] * kernel["ns"] for kernel in group[name]) / ns / 100
            cells = (f"{len(group[name])}", f"{read:.2f}", f"{written:.2f}", f"{busy:.3f}", f"{ns / 1e3:.1f}")
            rows.append((case.direction, case.dtype, case.layout, f"2^{case.log2}", name, *cells))
    print(common.title("cuda"))
    head = ("direction", "dtype", "layout", "size", "", "kernels", "N read", "N written", "DRAM time", "us")
    common.print_table(head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
