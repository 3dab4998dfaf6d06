"""Y = X² as a PyTorch operator. Importing this module registers torch.ops.torchsquare.square and square_backward."""

import torch

from . import _library

__all__ = ["cmake_prefix_path", "decompositions", "square"]

_build_info = _library.read_build_info()
_library.load(_build_info)

__version__: str = _build_info["version"]

cmake_prefix_path: str = str(_library.DIRECTORY / "share" / "cmake")
"""Where CMake finds the C++ package, for CMAKE_PREFIX_PATH, as torch.utils.cmake_prefix_path is for torch."""


def square(input: torch.Tensor) -> torch.Tensor:
    """Squares every element: Y = X², with grad_X = grad_Y · 2·conj(X), as torch.square does.

    Args:
        input: a tensor of any shape, layout and device, of a dtype that torch.square takes there.

    Returns:
        A new tensor with the shape, strides, device and dtype that torch.square gives (int64 for bool). Integers wrap;
        half and bfloat16 are computed in float32 and rounded once.

    Raises:
        NotImplementedError: for a dtype that torch.square does not take on that device.

    Example:
        >>> torchsquare.square(torch.tensor([1.0, 2.0, 3.0]))
        tensor([1., 4., 9.])
    """
    return torch.ops.torchsquare.square(input)


def decompositions() -> dict:
    """The operators in terms of ATen's, as a table for ExportedProgram.run_decompositions.

    A program that was exported with torchsquare in it then holds ATen operators only and runs without torchsquare:

        >>> program = torch.export.export(module, inputs)
        >>> program = program.run_decompositions(torchsquare.decompositions())

    Returns:
        A dictionary from each operator to a function of the same arguments.
    """
    operators = torch.ops.torchsquare
    table = {
        operators.square.default: torch.square,
        operators.square_backward.default: lambda grad_output, self: 2 * (grad_output * self.conj_physical()),
    }
    # run_decompositions drops from the table what is composite and listed in its namespace, on the grounds that tracing
    # decomposes it anyway: true of operators without kernels of their own, not of ours. So they are delisted.
    operators._dir.clear()
    return table
