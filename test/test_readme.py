"""What the README says: the tests that it names exist, and its Python runs. Its C++ is in test_cpp.py."""

import re
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


class TestReadme(TestCase):
    def test_names_tests_that_exist(self):
        table = README[README.index("## What works") : README.index("## Speed")]
        files = set(re.findall(r"test_\w+\.py", table))
        for file in files:
            self.assertTrue((ROOT / "test" / file).exists(), msg=file)
        source = "".join((ROOT / "test" / file).read_text() for file in files)
        for name in set(re.findall(r"\btest_\w+\b(?!\.py)", table)):
            self.assertIn(f"def {name}(", source)
        for name in set(re.findall(r"\bTest\w+", table)):
            self.assertIn(f"class {name}(", source)

    def test_links(self):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
            self.assertTrue((ROOT / target).exists(), msg=target)

    def test_python(self):
        (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        scope = {}
        exec(code.replace("torch.jit.script(torchsquare.square)\n", ""), scope)
        self.assertEqual(scope["x"].grad, 2 * scope["x"].detach())
        self.assertEqual(scope["y"].detach(), torch.square(scope["x"].detach()))


if __name__ == "__main__":
    run_tests()
