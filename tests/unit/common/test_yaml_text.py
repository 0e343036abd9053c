"""YAML as Ankaios uses it: 1.2 scalars, rejected hostile input, and the exact output style."""

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.yaml_text import MAX_YAML_BYTES, dump_yaml, load_yaml


def test_yes_octal_and_dates_are_strings() -> None:
    assert load_yaml("a: yes\nb: 010\nc: 2020-01-01", "it") == {"a": "yes", "b": "010", "c": "2020-01-01"}


def test_merge_keys_are_not_expanded() -> None:
    assert load_yaml("<<: {a: '1'}", "it") == {"<<": {"a": "1"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "duplicate entry"),
        ("a: 1\n---\nb: 2", "more than one document"),
        pytest.param("[" * 1000 + "]" * 1000, "recursion limit exceeded", id="too deep"),
        ("a: [", "did not find"),
        ("image: {{x}}", "put text with braces in quotes"),
        (b"a: \xff", "not UTF-8 at byte 3"),
        pytest.param("x" * (MAX_YAML_BYTES + 1), "more than the limit", id="too long"),
    ],
)
def test_invalid_text_is_rejected_with_the_reason(text: str | bytes, why: str) -> None:
    with pytest.raises(Rejected, match=r"cannot read manifest 'm\.yaml': ") as refusal:
        load_yaml(text, "manifest 'm.yaml'")
    assert why in str(refusal.value)


@pytest.mark.parametrize("piece", ["{a: ", "c: [[", '{"}]": ', "{'}': ", "[a'b, ", "[ # ]\n"])
def test_deep_nesting_is_rejected_before_parsing(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser would need quadratic time. Closing brackets in texts and comments do not count."""
    import ryaml

    monkeypatch.setattr(ryaml, "loads", lambda _: pytest.fail("the parser was called"))
    with pytest.raises(Rejected, match="cannot read it: "):
        load_yaml("c: " + piece * 100_000, "it")


def test_many_adjacent_brackets_are_no_deep_nesting() -> None:
    assert load_yaml("{" + ", ".join(f"w{number}: [a]" for number in range(5000)) + "}", "it")["w4999"] == ["a"]


def test_exponential_aliases_are_rejected() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )
    with pytest.raises(Rejected, match="repetition limit exceeded"):
        load_yaml(bomb, "it")


def test_strings_are_quoted_only_where_needed() -> None:
    value = {
        "a": "",
        "b": "1.0",
        "c": "yes",
        "d": "a: b",
        "e": "{{x}}",
        "f": "a\nb\n",
        "g": "a\tb",
        "h": {},
        "i": ["x"],
    }
    assert dump_yaml(value) == (
        "a: ''\nb: '1.0'\nc: yes\nd: 'a: b'\ne: '{{x}}'\nf: |\n  a\n  b\ng: \"a\\tb\"\nh: {}\ni:\n- x\n"
    )
