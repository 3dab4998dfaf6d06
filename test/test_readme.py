"""The documents: the tests and files that they name exist, and the README's Python runs. Its C++: test_cpp.py."""

import re
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
README = (ROOT / "README.md").read_text()


class TestReadme(TestCase):
    def test_names_tests_that_exist(self):
        sources = {path.name: path.read_text() for path in (ROOT / "test").glob("*.py")}
        source = "".join(sources.values())
        for document in DOCUMENTS:
            text = document.read_text()
            for file in set(re.findall(r"\btest_\w+\.py", text)) - {"test_cube.py"}:  # the guide's
                self.assertIn(file, sources)
            for name in set(re.findall(r"\btest_\w+\b(?!\.py)", text)):
                self.assertIn(f"def {name}(", source)
            for name in set(re.findall(r"\bTest[A-Z]\w+", text)):
                self.assertIn(f"class {name}(", source)

    def test_links(self):
        for document in DOCUMENTS:
            for target in re.findall(r"\]\((?!http)([^)#]+)\)", document.read_text()):
                self.assertTrue((document.parent / target).exists(), msg=target)

    def test_python(self):
        (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        scope = {}
        exec(code, scope)
        self.assertEqual(scope["x"].grad, 2 * scope["x"].detach())
        self.assertEqual(scope["y"].detach(), torch.square(scope["x"].detach()))


if __name__ == "__main__":
    run_tests()
