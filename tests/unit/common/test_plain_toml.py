"""What is read without the TOML library is what the library reads."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.plain_toml import read_plain_toml

PIECES = [
    "a",
    "key",
    "_",
    "-",
    "1",
    "=",
    " ",
    "\t",
    "\n",
    "'",
    '"',
    "''",
    "'''",
    '"""',
    "#",
    "\\",
    "\\n",
    "true",
    "false",
]
PIECES += [
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "ü",
    "\r",
    "\0",
    "\u2028",
    "\x7f",
    "key = 'x'\n",
    'k2 = "y" # z\n',
    "t = true\n",
]


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("", {}),
        ("# only words\n\n\t# more\n", {}),
        ("version = 'v1'", {"version": "v1"}),
        ("version='v1'#x\nname\t=\t\"node 1\" # 'y'\n", {"version": "v1", "name": "node 1"}),
        ("a = true\n  b=false # c", {"a": True, "b": False}),
        ("path = 'C:\\x'\nurl = \"https://h:1/#?=\"", {"path": "C:\\x", "url": "https://h:1/#?="}),
        ("empty = ''\nalso = \"\"", {"empty": "", "also": ""}),
    ],
)
def test_simple_files_are_read(text: str, table: dict[str, str | bool]) -> None:
    assert read_plain_toml(text) == table == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = ['x']",
        "a.b = 'x'",
        "[default]",
        "a = '''x'''",
        'a = "\\n"',
        "a = 'x' 'y'",
        "a = 'x",
        "a = x",
        "a = True",
        "a",
        "= 'x'",
        "a = 'x'\na = 'y'",
        "'a' = 'x'",
        "a = 'x'\r",
        "# \0",
    ],
)
def test_everything_else_is_left_to_the_library(text: str) -> None:
    assert read_plain_toml(text) is None


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_is_read_is_always_what_the_library_reads(text: str) -> None:
    table = read_plain_toml(text)
    if table is not None:
        assert table == tomllib.loads(text)
