"""Loads libtorchsquare.so, which registers the operators with PyTorch, or says in words why it cannot."""

import json
from pathlib import Path

import torch

DIRECTORY = Path(__file__).parent
LIBRARY = DIRECTORY / "libtorchsquare.so"


def read_build_info() -> dict:
    """What the library was built for: `version`, `torch`, `cuda` (None on the CPU), `arch_list` (likewise)."""
    try:
        return json.loads((DIRECTORY / "build_info.json").read_text())
    except FileNotFoundError:
        raise ImportError(
            f"torchsquare: {DIRECTORY} holds no library. If it is the source tree, build it there with "
            "`pip install --no-build-isolation -e .`, or import torchsquare from another directory."
        ) from None


def is_registered() -> bool:
    """Whether the operators exist, through this library or through another copy of it."""
    return torch._C._dispatch_has_kernel("torchsquare::square")


def load(build_info: dict) -> None:
    """Loads the library once.

    Where the operators exist already (a second copy of the library, a C++ program that links it), they are used as they
    are: registering them twice would abort the process, as it does where a second copy is opened after this one.

    Raises:
        ImportError: the library was built for another minor version of torch, or cannot be opened.
    """
    if is_registered():
        return
    built_for, found = build_info["torch"], torch.__version__
    versions = f"torchsquare {build_info['version']} was built for torch {built_for}, and torch {found} is installed"
    remedy = "Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>"
    # C++ autograd has no stable binary interface: look before opening, since an undefined symbol explains nothing.
    if built_for.split(".")[:2] != found.split(".")[:2]:
        raise ImportError(f"{versions}. {remedy}")
    try:
        torch.ops.load_library(LIBRARY)
    except OSError as error:
        reason = error.__cause__ or error  # torch hides the linker's words behind its own
        raise ImportError(f"{LIBRARY} cannot be loaded: {reason}. {versions}. {remedy}") from error
