"""Builds torchsquare/libtorchsquare.so and puts beside it what else depends on the build: build_info.json, which says
what the library was built for, and for C++ programs the header (include/) and the CMake package (share/cmake/).

Environment variables:
    TORCHSQUARE_CUDA  1: build the CUDA kernels or fail; 0: build for the CPU. Default: build them where torch was built
        for CUDA and a usable toolkit is there.
    CUDA_HOME, TORCH_CUDA_ARCH_LIST, MAX_JOBS: as torch.utils.cpp_extension has them. Without TORCH_CUDA_ARCH_LIST and
        without a GPU, the list is that of torch itself.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

ROOT = Path(__file__).parent
VERSION = (ROOT / "version.txt").read_text().strip()

try:
    import torch
    from torch.utils import cpp_extension
except ImportError:  # an sdist needs no torch
    torch = None


def find_cuda() -> bool:
    """Whether to build the CUDA kernels; a failure to find what they need is said in one line."""
    wanted = os.environ.get("TORCHSQUARE_CUDA", "auto")
    if wanted not in ("auto", "0", "1"):
        sys.exit(f"torchsquare: TORCHSQUARE_CUDA must be 0, 1 or unset, got {wanted!r}")
    if wanted == "0" or (wanted == "auto" and torch.version.cuda is None):
        return False
    if torch.version.cuda is None:
        sys.exit(f"torchsquare: TORCHSQUARE_CUDA=1, but torch {torch.__version__} was built without CUDA")
    home = Path(cpp_extension.CUDA_HOME or "/nonexistent")
    lib = "lib64" if (home / "lib64").exists() else "lib"  # as torch has it
    needed = ["bin/nvcc", "include/cuda_runtime.h", f"{lib}/libcudart.so"]
    missing = [name for name in needed if not (home / name).exists()]
    if not missing:
        return True
    problem = f"no usable CUDA {torch.version.cuda} toolkit: {home} lacks {', '.join(missing)} (set CUDA_HOME)"
    if wanted == "1":
        sys.exit(f"torchsquare: {problem}")
    banner = "*" * 80
    print(f"{banner}\ntorchsquare: BUILDING FOR THE CPU ONLY: {problem}\n{banner}", file=sys.stderr, flush=True)
    return False


def make_extension(with_cuda: bool):
    """The library as a setuptools extension. It holds no Python code, so that one binary serves every Python."""
    sources = [*ROOT.glob("csrc/*.cpp"), *ROOT.glob("csrc/*.cu")]
    if not with_cuda:  # CMakeLists.txt has the same rule
        sources = [path for path in sources if not path.name.startswith("cuda")]
    hidden = "-fvisibility=hidden"  # load_library opens with global symbols: only the public API may be among them
    make = cpp_extension.CUDAExtension if with_cuda else cpp_extension.CppExtension
    return make(
        "torchsquare.libtorchsquare",
        sources=sorted(str(path.relative_to(ROOT)) for path in sources),
        include_dirs=[str(ROOT / "csrc")],
        extra_compile_args={
            "cxx": ["-O3", "-g0", "-Wall", hidden, "-fvisibility-inlines-hidden"],
            "nvcc": ["-O3", "-Xcompiler", hidden],
        },
        # Without the soname, C++ programs would note the path. And the C++ runtime must be torch's: where the compiler
        # links one of its own into the library (-static-libstdc++), an error that names a shape is cut off.
        extra_link_args=["-Wl,-s", "-Wl,-soname,libtorchsquare.so", "-l:libstdc++.so.6"],
        py_limited_api=True,
    )


def default_arch_list() -> str:
    """The GPUs that are here; without one, what torch itself was built for. With PTX of the newest."""
    if torch.cuda.is_available():
        archs = sorted({torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())})
    else:
        archs = re.findall(r"sm_(\d+)(\d[a-z]?)", torch._C._cuda_getArchFlags())
    return ";".join(f"{major}.{minor}" for major, minor in archs) + "+PTX"


class Wheel(bdist_wheel):
    """Tags the wheel py3-none-<platform>: compiled code, but none that depends on the version of Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


def write_cmake_package(prefix: Path, **values: str) -> None:
    """Puts what C++ programs need under the prefix: the header, and the CMake package with the values filled in."""
    header, package = prefix / "include/torchsquare/square.h", prefix / "share/cmake/torchsquare"
    header.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "csrc/torchsquare/square.h", header)
    package.mkdir(parents=True, exist_ok=True)
    for template in ROOT.glob("cmake/*.in"):
        text = template.read_text()
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        (package / template.stem).write_text(text)


def options() -> dict:
    """The part of the setup that depends on the torch that is built for."""
    if "sdist" in sys.argv or (torch is None and "egg_info" in sys.argv):
        return {"version": VERSION}
    if torch is None:
        sys.exit("torchsquare: to build without isolation, torch must be installed first: pip install torch")
    with_cuda = find_cuda()
    if with_cuda and not os.environ.get("TORCH_CUDA_ARCH_LIST"):
        os.environ["TORCH_CUDA_ARCH_LIST"] = default_arch_list()
    major, minor = torch.__version__.split(".")[:2]
    local = f"+pt{major}{minor}" + (f"cu{torch.version.cuda.replace('.', '')}" if with_cuda else "cpu")
    info = {
        "version": VERSION + local,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if with_cuda else None,
    }

    class Build(cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)):
        def finalize_options(self):
            super().finalize_options()
            self.force = True  # what was built for another torch looks up to date to setuptools, if not to ninja

        def run(self):
            super().run()
            info["arch_list"] = os.environ["TORCH_CUDA_ARCH_LIST"] if with_cuda else None
            library = Path(self.get_ext_fullpath(self.extensions[0].name))
            library.with_name("build_info.json").write_text(json.dumps(info, indent=2) + "\n")
            write_cmake_package(library.parent, version=VERSION, torch_minor_version=f"{major}.{minor}")

    return {
        "version": VERSION + local,
        "ext_modules": [make_extension(with_cuda)],
        "cmdclass": {"build_ext": Build, "bdist_wheel": Wheel},
        # The C++ of torch keeps no binary interface from one minor version to the next.
        "install_requires": [f"torch=={major}.{minor}.*"],
    }


setup(
    name="torchsquare",
    description="Y = X² as a PyTorch operator: a model of a C++/CUDA extension",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=["torchsquare"],
    package_data={"torchsquare": ["py.typed"]},
    **options(),
)
