"""The engine is there because it costs next to nothing to load."""

import subprocess
import sys
from pathlib import Path

import ankaios

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import ankaios.middleware.http2_engine.engine
print(*sorted(set(sys.modules) - before))
"""


def test_the_engine_loads_nothing_but_itself_and_no_huffman_table() -> None:
    root = str(Path(ankaios.__file__).parent.parent)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, root]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    package = "ankaios.middleware.http2_engine"
    assert f"{package}.hpack_decoder" in loaded
    assert f"{package}.huffman" not in loaded
    assert [name for name in loaded if not name.startswith(package)] == ["__future__", "ankaios", "ankaios.middleware"]
