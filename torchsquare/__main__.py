"""python -m torchsquare: what was built, what was found, and whether they work together. Made for bug reports.

Squares X = [1, 2, 3] with the upstream gradient 10 on the CPU and on every GPU, beside torch.square.
Exit status: 0 if all agree, else 1.
"""

import platform
import re
import sys

import torch

import torchsquare


def kernel_keys(name: str) -> list[str]:
    """The dispatch keys at which the operator has a kernel of ours."""
    return re.findall(r"^(\w+).*: registered at", torch._C._dispatch_dump(f"torchsquare::{name}"), re.MULTILINE)[1:]


def print_build() -> None:
    """Prints what the library was built for, what is installed, and which dispatch keys have a kernel of ours."""
    built = torchsquare._build_info
    print(f"torchsquare    {built['version']}")
    print(f"  built for    torch {built['torch']}, CUDA {built['cuda']}, architectures {built['arch_list']}")
    print(f"found          torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}")
    print(f"  platform     {platform.platform()}")
    if torch.version.cuda and not built["cuda"]:
        print("  NO CUDA KERNELS, though torch has CUDA: torchsquare was built for the CPU. Set CUDA_HOME and rebuild")
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        print(f"  cuda:{index}       {torch.cuda.get_device_name(index)}, compute capability {major}.{minor}")
    for name in ("square", "square_backward"):
        print(f"{name}: kernels at {', '.join(kernel_keys(name))}")


def run(function, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Y and dX of X = [1, 2, 3] and dY = 10 on the device."""
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    y = function(x)
    y.backward(torch.full_like(y, 10.0))
    return y.detach(), x.grad


def agrees_on(device: str) -> bool:
    """Runs both functions on the device, prints their results, and tells whether they are equal."""
    functions = {"torchsquare": torchsquare.square, "torch.square": torch.square}
    try:
        results = {name: run(function, device) for name, function in functions.items()}
    except RuntimeError as error:
        print(f"{device:<8}{error}")
        return False
    for name, (y, dx) in results.items():
        print(f"{device:<8}{name:<14}Y = {y.tolist()}  dX = {dx.tolist()}")
    ours, theirs = results.values()
    return torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def main() -> int:
    print_build()
    print("\nX = [1, 2, 3], dY = 10")
    devices = ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    failed = [device for device in devices if not agrees_on(device)]
    if failed:
        print(f"FAILED: torchsquare and torch.square do not agree on {', '.join(failed)}")
        return 1
    print(f"OK: torchsquare and torch.square agree on {', '.join(devices)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
