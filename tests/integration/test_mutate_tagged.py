"""What `tools/mutate_tagged.py` changes beside a tag, and that it reports a test that does not detect the change."""

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
LIMIT = 2  # TAG(a)


def size(text):
    """TAG(b)"""
    if text:
        return len(text)
    return 0


def send(message, sink):
    # TAG(c)
    sink(message)
    match message:
        # TAG(d)
        case "end":
            sink.close()


class Words:
    """TAG(e)"""

    ON = "on"

    def all(self):
        return [self.ON]
'''
# Spelled in parts, because this file is no implementation of a requirement.
TAGGED = re.sub(r"TAG\((.)\)", r"[impl" r"->swdd~\1~1]", SOURCE)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate_tagged", ROOT / "tools/mutate_tagged.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("a", {"the constant differs": "LIMIT = 241"}),
        (
            "b",
            {
                "size returns None": '~1]"""\n    return None\n\n',
                "size inverts its first condition": "if (not (text)):",
            },
        ),
        ("c", {"the statement becomes 'pass'": "~c~1]\n    pass\n    match"}),
        ("d", {"the case does nothing": 'case "end":\n            pass\n'}),
        ("e", {"all functions of Words return None": "(self):\n        return None", "ON differs": "ON = 'onx'"}),
    ],
)
def test_the_code_beside_a_tag_is_changed(tool: ModuleType, tag: str, expected: dict[str, str]) -> None:
    line = next(number for number, text in enumerate(TAGGED.splitlines(), 1) if f"~{tag}~" in text)
    changes = {what: changed for what, changed in tool._changes(TAGGED, ast.parse(TAGGED), line) if changed}
    assert changes.keys() == expected.keys()
    for what, part in expected.items():
        assert part in changes[what]
        ast.parse(changes[what])


def test_a_change_survives_unless_its_test_fails(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "size.py").write_text("def size(text):\n    return len(text)\n")
    code = "from size import size\ndef test_number():\n    assert size('abc') == 3\ndef test_call():\n    size('abc')\n"
    (tmp_path / "test_size.py").write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{code}")
    mutant = tool.Mutant(Path("size.py"), 1, "size returns None", "def size(text):\n    return None\n")

    def result(test: str) -> str:
        nodes = {"utest": [f"test_size.py::{test}"]}
        return str(tool._judge(tmp_path, mutant, nodes, 60.0, False))

    assert (result("test_number"), result("test_call")) == ("killed (utest)", "SURVIVED")
    assert "len(text)" in (tmp_path / "size.py").read_text()
