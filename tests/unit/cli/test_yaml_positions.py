"""Positions of keys and values in a YAML text, in examples and compared with a complete parser."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ankaios.cli.validation.yaml_positions import Duplicate, find_positions
from tests.support.examples import examples

Lines = dict[tuple[str, ...], int]


def lines_by_pyyaml(node: yaml.Node, path: tuple[str, ...] = ()) -> Lines:
    found: Lines = {}
    pairs: list[tuple[str, int, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        named = [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)]
        pairs = [(key.value, key.start_mark.line + 1, value) for key, value in named]
    elif isinstance(node, yaml.SequenceNode):
        pairs = [(str(index), item.start_mark.line + 1, item) for index, item in enumerate(node.value)]
    for name, line, value in pairs:
        found[(*path, name)] = line
        found |= lines_by_pyyaml(value, (*path, name))
    return found


def assert_same_lines(text: str) -> None:
    node = yaml.compose(text)
    assert node is not None
    places = find_positions(text)
    for path, line in lines_by_pyyaml(node).items():
        assert places.line(path) == line, (path, text)


@pytest.mark.parametrize(
    "text",
    [
        "# 1\n%YAML 1.2\n---\n# 2\na: 1 # x: y\n\nb:\n# c\n- 1\n-\n  x: 1\n- - 2\n  - 3\n- k: v\n  # d\n  l: w\n",
        "a: {a: 1, 'b': [x, {y: z}], \"c\": 2, # comment, with: signs\n d: 3}\ne: f\n",
        "&r a: &x\n  b: 1\n  !!str c: 2\nd: 4\ne: !t\nf: !t {a: b}\ng: !!map\n  h: i\n",
        "- &a k: v\n  k2: w\n- !x\n  k3: 1\n- &b !y {c: d}\n",
        "a: |2\n    x\n   y\n  z: no key\nb: >-\n\n  folded: no\n\nc: |+\n\n\nd: e\n",
        "a: plain\n  goes on\n  # end\nb: 'x\n  y: z\n\n  w'\nc: \"x\\\n  y\"\nd: e\n",
        '{"a": {"b": [1,\n2, {"c": 3}]},\n "d":"e",\n "f\\u0041": {}}\n',
        "a: [x: y, z]\nb: http://x:80/\nc: a:b\n'd:e' : f\n\"g\": h\n'it''s': i\n",
        "a:\n- b\n-   c: 1\n    d: 2\n-\n- e\nf: g\n...\n",
        "a:\r\n  b: 1\r\n  c: |\r\n    x\r\nd: 2\r\n",
        "? a\n: b\n? c\n: - d\n  - e\nf: g\n",
        "--- {a: 1,\n b: 2}\n",
        "\ufeffa: {}\nb: []\nc: ''\nd:\ne: ~\n",
        "a:\n    - b: c\n      d:\n        - e\n        - f:\n          - g\n    - h\ni: j\n",
        "a: {? b : c, [d]: e, f: g}\nh: i\n",
    ],
)
def test_the_lines_are_those_of_a_full_parser(text: str) -> None:
    assert_same_lines(text)


PIECES = ["a", "b c", "x: y", "# no", "it's", 'q"q', "- dash", "{{x}}", "true", "12", "", "key:", "[a", "a, b", "é"]
PIECES += ["*a", "&b", "long " * 30, "tab\there", "trail ", " lead", "a #b"]
PIECES += ["l1\nl2\n", "l1\n\n  l2", "m\nk: x\n# no\n", "\n\nz"]
TEXTS = st.sampled_from(PIECES)
KEYS = TEXTS.filter(lambda text: text != "" and "\n" not in text and len(text) < 100)
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@examples(100)
@given(
    value=st.dictionaries(KEYS, VALUES, min_size=1, max_size=5),
    flow=st.sampled_from([None, False, True]),
    style=st.sampled_from([None, '"', "'", "|", ">"]),
    width=st.sampled_from([20, 80, 1000]),
    indent=st.sampled_from([2, 3, 4]),
)
def test_every_written_key_is_found_in_its_line(
    value: Any, flow: bool | None, style: str | None, width: int, indent: int
) -> None:
    assert_same_lines(
        yaml.safe_dump(
            value, default_flow_style=flow, default_style=style, width=width, indent=indent, allow_unicode=True
        )
    )


@examples(150)
@given(st.text(alphabet="ab:-?{}[],#&*!|>'\"% \n\t\\1\u00a0\x0b", max_size=60))
def test_any_text_is_accepted_without_a_failure(text: str) -> None:
    assert find_positions(text).line(("a",)) >= 1


@pytest.mark.parametrize(
    "piece", ["{", "[", "{{", "[{", "- ", "? ", "a: ", "&a ", "{a: ", "[a: ", "- - ", "'", "a:\n "]
)
def test_deep_nesting_ends_the_search(piece: str) -> None:
    assert find_positions(piece * 5000).line(("a",)) >= 1


def test_a_missing_key_has_the_line_of_its_parent() -> None:
    places = find_positions("a:\n  b:\n    c: 1\n")
    assert places.line(("a", "b", "missing", "deeper")) == 2
    assert places.line(("nothing",)) == 1


def test_the_lines_of_a_literal_block_are_lines_of_the_file() -> None:
    places = find_positions("a:\n  b: |\n    first\n    second\n  c: >\n    folded\n  d: plain\n")
    assert places.text_line(("a", "b")) == 3
    assert places.text_line(("a", "c")) is None
    assert places.text_line(("a", "d")) is None


def test_a_duplicate_key_is_recorded_with_both_lines() -> None:
    assert find_positions("a:\n  b: 1\n  c: 2\n  b: 3\n").duplicates == [Duplicate(("a", "b"), 4, 2)]
    assert find_positions("{a: 1,\na: 2}").duplicates == [Duplicate(("a",), 2, 1)]
