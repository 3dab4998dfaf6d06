"""Loading the library, what is said when that fails, and `python -m torchsquare`."""

import contextlib
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torchsquare
from torchsquare import __main__ as report
from torchsquare import _library


class TestLibrary(TestCase):
    def assertImportError(self, expected, call, *args):
        with self.assertRaises(ImportError) as context:
            call(*args)
        self.assertExpectedInline(str(context.exception), expected, skip=1)

    def test_no_library(self):
        with mock.patch.object(_library, "DIRECTORY", Path("/source/torchsquare")):
            self.assertImportError(
                """\
torchsquare: /source/torchsquare holds no library. If it is the source tree, build it there with `pip install --no-build-isolation -e .`, or import torchsquare from another directory.""",  # noqa: E501
                _library.read_build_info,
            )

    def test_loads_once(self):
        with mock.patch.object(torch.ops, "load_library", side_effect=AssertionError("loaded a second time")):
            _library.load(torchsquare._build_info)

    def test_another_torch(self):
        build_info = {"version": "1.0", "torch": "1.13.1", "cuda": None}
        with (
            mock.patch.object(_library, "is_registered", lambda: False),
            mock.patch.object(torch, "__version__", "2.99.0"),
            mock.patch.object(torch.ops, "load_library", side_effect=AssertionError("opened")),
        ):
            self.assertImportError(
                """\
torchsquare 1.0 was built for torch 1.13.1, and torch 2.99.0 is installed. Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>""",  # noqa: E501
                _library.load,
                build_info,
            )

    def test_broken_library(self):
        build_info = {"version": "1.0", "torch": "2.99.1", "cuda": None}
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(_library, "LIBRARY", Path(folder) / "libtorchsquare.so"),
            mock.patch.object(_library, "is_registered", lambda: False),
            mock.patch.object(torch, "__version__", "2.99.0"),
        ):
            _library.LIBRARY.write_bytes(b"not a library")
            with self.assertRaises(ImportError) as context:
                _library.load(build_info)
            self.assertIsInstance(context.exception.__cause__, OSError)
            self.assertExpectedInline(
                str(context.exception).replace(folder, "<folder>"),
                """\
<folder>/libtorchsquare.so cannot be loaded: <folder>/libtorchsquare.so: file too short. torchsquare 1.0 was built for torch 2.99.1, and torch 2.99.0 is installed. Rebuild it: pip install --force-reinstall --no-deps --no-build-isolation <source of torchsquare>""",  # noqa: E501
            )


class TestReport(TestCase):
    def test_command(self):
        output = subprocess.check_output([sys.executable, "-m", "torchsquare"], text=True, stderr=subprocess.STDOUT)
        self.assertIn("OK: torchsquare and torch.square agree on cpu", output)

    def report_with_a_broken_gpu(self, square):
        def run(function, device, run=report.run):
            if device != "cpu":
                raise RuntimeError("no kernel image is available")
            return run(function, device)

        output = io.StringIO()
        with (
            mock.patch.object(torchsquare, "square", square),
            mock.patch.object(torch.cuda, "device_count", lambda: 1),
            mock.patch.object(torch.cuda, "get_device_name", lambda index: "GPU"),
            mock.patch.object(torch.cuda, "get_device_capability", lambda index: (9, 0)),
            mock.patch.object(report, "run", run),
            contextlib.redirect_stdout(output),
        ):
            self.assertEqual(report.main(), 1)
        return output.getvalue()

    def test_broken_gpu(self):
        output = self.report_with_a_broken_gpu(torchsquare.square)
        self.assertIn("cuda:0       GPU, compute capability 9.0", output)
        self.assertIn("cuda:0  no kernel image is available", output)
        self.assertTrue(output.endswith("FAILED: torchsquare and torch.square do not agree on cuda:0\n"), output)

    def test_wrong_results(self):
        output = self.report_with_a_broken_gpu(torch.sin)
        self.assertTrue(output.endswith("FAILED: torchsquare and torch.square do not agree on cpu, cuda:0\n"), output)


if __name__ == "__main__":
    run_tests()
