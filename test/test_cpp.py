"""The C++ package as its users have it: installed by CMake or by pip, moved since, and linked by programs of theirs."""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import unittest
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torchsquare

ROOT = Path(__file__).parent.parent
WITH_CUDA = torchsquare._build_info["cuda"] is not None
ENVIRONMENT = {
    "CMAKE_GENERATOR": "Ninja",
    "CMAKE_BUILD_PARALLEL_LEVEL": os.environ.get("MAX_JOBS", str(os.cpu_count())),
    **os.environ,
    "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
}


def run(*command, cwd=None) -> str:
    """Runs the command and gives what it prints."""
    command = [str(part) for part in command]
    done = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def configure(source: Path, build: Path, *options: str, prefix: Path | None = None) -> str:
    """Configures the source for the torch that is installed, and for the torchsquare under the prefix."""
    prefixes = [torch.utils.cmake_prefix_path] + ([str(prefix)] if prefix else [])
    return run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={';'.join(prefixes)}", *options)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchsquare.square(x)


class TestCpp(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = Path(directory.name)
        cls.models = cls.make_models()
        cls.by_cmake = cls.install_by_cmake()
        cls.by_pip = cls.directory / "moved" / "torchsquare"
        shutil.copytree(Path(torchsquare.__file__).parent, cls.by_pip)

    @classmethod
    def make_models(cls) -> Path:
        models = cls.directory / "models"
        models.mkdir()
        torch.jit.script(Model()).save(models / "scripted.pt")
        x = torch.ones(7, device="cuda" if torch.cuda.is_available() else "cpu")
        program = torch.export.export(Model(), (x,))
        torch._inductor.aoti_compile_and_package(program, package_path=str(models / "package.pt2"))
        return models

    @classmethod
    def install_by_cmake(cls) -> Path:
        build, installed, moved = (cls.directory / name for name in ("build", "installed", "elsewhere"))
        architectures = "native" if torch.cuda.is_available() else "90-real"
        cuda = "ON" if WITH_CUDA else "OFF"
        configure(ROOT, build, f"-DTORCHSQUARE_CUDA={cuda}", f"-DCMAKE_CUDA_ARCHITECTURES={architectures}")
        run("cmake", "--build", build)
        run("cmake", "--install", build, "--prefix", installed)
        return installed.rename(moved)

    def check_consumer(self, name: str, prefix: Path):
        """Builds test/cpp for the package under the prefix, and runs its programs."""
        build = self.directory / name
        configure(ROOT / "test/cpp", build, f"-DMODELS={self.models}", prefix=prefix)
        run("cmake", "--build", build)
        run("ctest", "--test-dir", build, "--output-on-failure")

    def test_installed_by_cmake(self):
        self.check_consumer("for_cmake", self.by_cmake)

    def test_installed_by_pip(self):
        self.check_consumer("for_pip", self.by_pip / "share/cmake")

    def test_needs_no_python_and_exports_the_api_alone(self):
        for library in (self.by_cmake / "lib/libtorchsquare.so", self.by_pip / "libtorchsquare.so"):
            needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", library))
            self.assertIn("libtorch_cpu.so", needed)
            self.assertEqual([name for name in needed if "python" in name], [])
            symbols = run("nm", "-DC", "--defined-only", library).splitlines()
            exported = [symbol.split(maxsplit=2)[2] for symbol in symbols if "torchsquare" in symbol]
            signatures = ["square(at::Tensor const&)", "square_backward(at::Tensor const&, at::Tensor const&)"]
            self.assertEqual(sorted(exported), [f"torchsquare::{signature}" for signature in signatures])

    def test_readme(self):
        readme = (ROOT / "README.md").read_text()
        cmake, cpp, bash = (
            re.search(rf"### C\+\+\n.*?```{language}\n(.*?)```", readme, re.DOTALL)[1]
            for language in ("cmake", "cpp", "bash")
        )
        app = self.directory / "app"
        app.mkdir()
        (app / "CMakeLists.txt").write_text(cmake)
        (app / "app.cpp").write_text(cpp)
        self.assertRegex(run("bash", "-ec", bash, cwd=app), r"\n 2\n 4\n 6\n")

    def test_find_package_refuses_other_versions(self):
        source = self.directory / "refuses"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(refuses LANGUAGES CXX)\n"
            "find_package(torchsquare ${WANTED} REQUIRED)\n"
        )
        prefix = self.by_pip / "share/cmake"
        configure(source, source / "build", "-DWANTED=0.0.1", prefix=prefix)
        with self.assertRaisesRegex(RuntimeError, r'compatible with\s+requested\s+version "999"'):
            configure(source, source / "build_999", "-DWANTED=999", prefix=prefix)

        shutil.copytree(prefix, source / "for_torch_1.0")
        config = source / "for_torch_1.0/torchsquare/torchsquareConfig.cmake"
        minor_version = ".".join(torch.__version__.split(".")[:2])
        config.write_text(config.read_text().replace(minor_version, "1.0"))
        with self.assertRaisesRegex(RuntimeError, rf"built for torch 1\.0, and this is torch\s+{minor_version}"):
            configure(source, source / "build_1.0", prefix=source / "for_torch_1.0")

    @unittest.skipUnless(WITH_CUDA, "built for the CPU: there is no toolkit to configure for")
    def test_architectures(self):
        for number, option in enumerate(("CMAKE_CUDA_ARCHITECTURES=80-real;90", "TORCH_CUDA_ARCH_LIST=8.0;9.0+PTX")):
            build = self.directory / f"architectures_{number}"
            configure(ROOT, build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-D{option}")
            commands = (build / "compile_commands.json").read_text()
            generated = re.findall(r"arch=compute_\d+,code=\[?([^\] \"]+)", commands)
            self.assertEqual(sorted(generated), ["compute_90,sm_90", "sm_80"])


if __name__ == "__main__":
    run_tests()
