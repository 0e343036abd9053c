import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.agent.core.log_splitting import (
    ENTRY_TRUNCATED,
    LINE_TOO_LONG,
    MAX_RESPONSE,
    LineSplitter,
    as_responses,
)
from ankaios.common.pb.ank_base_pb2 import WorkloadInstanceName

NAME = WorkloadInstanceName(workloadName="web", agentName="A", id="1")


def test_lines_end_at_line_feeds_only() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\r\ntw") == ["one\r"]
    assert splitter.feed(b"o\n\nthree") == ["two", ""]
    assert splitter.finish() == ["three"]
    assert splitter.finish() == []


def test_invalid_text_is_replaced() -> None:
    assert LineSplitter().feed(b"a\xffb\n") == ["a�b"]


@given(st.lists(st.binary(max_size=20)))
def test_lines_do_not_depend_on_how_output_is_cut(pieces: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed(piece)] + splitter.finish()
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    assert lines == [line.decode("utf-8", "replace") for line in (expected[:-1] if not expected[-1] else expected)]


def test_a_line_without_end_closes_the_stream() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"ok\n" + b"x" * 8) == ["ok"]
    assert splitter.feed(b"yyy") == [LINE_TOO_LONG]
    assert splitter.overflowed
    assert splitter.feed(b"more\n") == []
    assert splitter.finish() == []


def test_few_lines_make_one_response() -> None:
    (response,) = as_responses(NAME, ["a", "b"])
    assert [(entry.workloadName, entry.message) for entry in response.logEntries] == [(NAME, "a"), (NAME, "b")]
    assert list(as_responses(NAME, [])) == []


@given(st.lists(st.text(max_size=60), max_size=30), st.integers(200, 400))
def test_responses_keep_order_and_limit(lines: list[str], limit: int) -> None:
    responses = list(as_responses(NAME, lines, limit))
    assert [entry.message for response in responses for entry in response.logEntries] == lines
    assert all(0 < response.ByteSize() <= limit for response in responses)


def test_responses_are_packed_greedily() -> None:
    lines = ["x" * 100] * 30
    responses = list(as_responses(NAME, lines, 1200))
    entry = responses[0].ByteSize() // len(responses[0].logEntries)
    assert all(response.ByteSize() + entry > 1200 for response in responses[:-1])


@pytest.mark.parametrize("character", ["x", "ü", "語", "🚗"])
def test_a_huge_line_is_cut_at_a_character_and_marked(character: str) -> None:
    huge = character * (3 * 1024 * 1024 // len(character.encode()))
    first, second, third = as_responses(NAME, ["before", huge, "after"])
    assert [entry.message for entry in first.logEntries] == ["before"]
    cut, notice = (entry.message for entry in second.logEntries)
    assert cut.endswith(" [truncated]")
    assert set(cut.removesuffix(" [truncated]")) == {character}
    assert notice == ENTRY_TRUNCATED
    assert MAX_RESPONSE - 200 < second.ByteSize() <= MAX_RESPONSE
    assert [entry.message for entry in third.logEntries] == ["after"]
    assert len(list(as_responses(NAME, [huge, huge]))) == 2
