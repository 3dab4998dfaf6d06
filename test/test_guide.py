"""docs/your-own-operator.md: its commands and edits, in a copy of the repository, lead to an operator that works."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from torch.testing._internal.common_utils import TestCase, run_tests

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "your-own-operator.md").read_text()


def copy_repository(copy: Path) -> None:
    """Copies what git tracks, as it is in the working tree, into a repository of its own."""
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for file in files:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, copy / file)
    subprocess.check_call("git init -q && git add --all --force", shell=True, cwd=copy)


def make_environment(directory: Path) -> Path:
    """Makes a virtual environment with the packages of this one and gives its commands' folder."""
    subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", directory])
    (packages,) = directory.glob("lib/python3*/site-packages")
    (packages / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin"


class TestGuide(TestCase):
    @pytest.mark.slow
    def test_leads_to_an_operator_that_works(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / "torchcube"
            copy_repository(copy)
            environment = {
                **os.environ,
                "PATH": f"{make_environment(Path(directory) / 'environment')}:{os.environ['PATH']}",
            }
            for language, text in re.findall(r"```(sh|diff)\n(.*?)```", GUIDE, re.DOTALL):
                command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else ["git", "apply"]
                done = subprocess.run(
                    command,
                    input=text if language == "diff" else None,
                    cwd=copy,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                self.assertEqual(done.returncode, 0, msg=f"{text}\n{done.stdout}")
            self.assertRegex(done.stdout, r"\d{3} passed")


if __name__ == "__main__":
    run_tests()
