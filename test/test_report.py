"""`python -m torchsquare`: what it prints, and its exit status."""

import contextlib
import io
import subprocess
import sys
from unittest import mock

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torchsquare
from torchsquare import __main__ as report


class TestReport(TestCase):
    def test_command(self):
        output = subprocess.check_output([sys.executable, "-m", "torchsquare"], text=True, stderr=subprocess.STDOUT)
        self.assertIn("OK: torchsquare and torch.square agree on cpu", output)

    def test_no_cuda_kernels(self):
        for built, found, is_said in ((None, "13.0", True), ("13.0", "13.0", False), (None, None, False)):
            output = io.StringIO()
            with (
                mock.patch.object(torch.version, "cuda", found),
                mock.patch.dict(torchsquare._build_info, cuda=built),
                contextlib.redirect_stdout(output),
            ):
                report.print_build()
            self.assertEqual("NO CUDA KERNELS" in output.getvalue(), is_said)

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
