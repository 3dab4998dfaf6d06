"""Importing torchsquare in a fresh process: what goes wrong is one sentence that says what to do; nothing aborts."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torchsquare

PACKAGE = Path(torchsquare.__file__).parent
RUN = "import torch, torchsquare; print(torchsquare.square(torch.tensor([3.0])).item())"
RESULT = str(torch.square(torch.tensor([3.0])).item())


class TestImport(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.package = self.folder / "torchsquare"  # a copy that the test may break
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def run_python(self, code):
        """Runs the code in a fresh process that finds the copy first: its output, and the last line of its errors."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.folder)
        self.assertGreaterEqual(result.returncode, 0, msg=f"aborted: {result.stderr}")
        error = (result.stderr.strip().splitlines() or [""])[-1]
        return result.stdout.strip(), error.replace(str(self.folder), "<folder>").replace(torch.__version__, "<torch>")

    def test_works(self):
        self.assertEqual(self.run_python(RUN), (RESULT, ""))

    def test_costs_under_20_ms(self):
        code = "import time, torch; t = time.process_time(); import torchsquare; print(time.process_time() - t)"
        self.assertLess(min(float(self.run_python(code)[0]) for _ in range(3)), 0.020)

    def test_source_tree(self):
        (self.package / "libtorchsquare.so").unlink()
        (self.package / "build_info.json").unlink()
        self.assertExpectedInline(
            self.run_python(RUN)[1],
            """\
ImportError: torchsquare: <folder>/torchsquare holds no library. If it is the source tree, build it there with `pip install --no-build-isolation -e .`, or import torchsquare from another directory.""",  # noqa: E501
        )

    def pretend(self, **info):
        path = self.package / "build_info.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": "1.0", **info}))

    def test_another_torch(self):
        self.pretend(torch="1.13.1+cpu")
        self.assertExpectedInline(
            self.run_python(RUN)[1],
            """\
ImportError: torchsquare 1.0 was built for torch 1.13.1+cpu, and torch <torch> is installed. Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>""",  # noqa: E501
        )

    def test_missing_library(self):
        self.pretend()
        (self.package / "libtorchsquare.so").unlink()
        self.assertExpectedInline(
            self.run_python(RUN)[1],
            """\
ImportError: <folder>/torchsquare/libtorchsquare.so cannot be loaded: <folder>/torchsquare/libtorchsquare.so: cannot open shared object file: No such file or directory. torchsquare 1.0 was built for torch <torch>, and torch <torch> is installed. Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>""",  # noqa: E501
        )

    def test_broken_library(self):
        self.pretend()
        (self.package / "libtorchsquare.so").write_bytes(b"\x7fELF")
        self.assertExpectedInline(
            self.run_python(RUN)[1],
            """\
ImportError: <folder>/torchsquare/libtorchsquare.so cannot be loaded: <folder>/torchsquare/libtorchsquare.so: file too short. torchsquare 1.0 was built for torch <torch>, and torch <torch> is installed. Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>""",  # noqa: E501
        )

    def test_loaded_before(self):
        """The operators of another copy of the library are used; a second registration would abort the process."""
        code = f"import torch; torch.ops.load_library({str(PACKAGE / 'libtorchsquare.so')!r})\n" + RUN
        self.assertEqual(self.run_python(code), (RESULT, ""))

    def test_reload(self):
        code = RUN + "; import importlib; importlib.reload(torchsquare); importlib.reload(torchsquare._library)"
        self.assertEqual(self.run_python(code), (RESULT, ""))

    def test_first_import(self):
        self.assertEqual(self.run_python("import torchsquare; print(torchsquare.__version__)")[1], "")

    def test_after_fork(self):
        code = "import os, torch\nif (pid := os.fork()) == 0:\n    " + RUN + "\nelse:\n    os.waitpid(pid, 0)"
        self.assertEqual(self.run_python(code), (RESULT, ""))

    def test_makes_no_cuda_context(self):
        code = (
            "import torch, torchsquare; print(torch.cuda.is_initialized(), "
            "torch.cuda.device_count() > 0 and torch._C._cuda_hasPrimaryContext(0))"
        )
        self.assertEqual(self.run_python(code), ("False False", ""))


if __name__ == "__main__":
    run_tests()
