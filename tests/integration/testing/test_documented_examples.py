"""The examples of the tutorial run unchanged, in a separate pytest process."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "testing-manifests.md"


def test_the_three_examples_pass(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "test_examples.py").write_text("\n\n".join(examples))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "3 passed" in done.stdout, done.stdout
