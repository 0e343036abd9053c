"""Drawing again and again."""

import io

import pytest

from ankaios.cli.output import Output
from ankaios.cli.screen import Screen


class FakeOutput(Output):
    """A terminal of a chosen size that remembers what was written."""

    def __init__(self, *, terminal: bool, columns: int = 10, lines: int = 24, quiet: bool = False) -> None:
        self.stream = io.StringIO()
        super().__init__(self.stream, io.StringIO(), {}, quiet=quiet)
        self.is_terminal = terminal
        self._columns, self._lines = columns, lines

    def _size(self) -> tuple[int, int]:
        return self._columns, self._lines


def drawn(output: FakeOutput, *tables: list[str]) -> str:
    screen = Screen(output)
    for table in tables:
        screen.draw(table)
    return output.stream.getvalue()


def test_in_a_pipe_tables_follow_each_other_with_an_empty_line_between() -> None:
    assert drawn(FakeOutput(terminal=False), ["a", "b"], ["c"]) == "a\nb\n\nc\n\n"


def test_on_a_terminal_the_table_is_drawn_over_its_predecessor() -> None:
    assert drawn(FakeOutput(terminal=True), ["a", "b"], ["c", "d"]) == (
        "\x1b[1Ga\x1b[K\nb\x1b[K\n\x1b[1G\x1b[2Ac\x1b[K\nd\x1b[K\n"
    )


def test_what_is_there_already_is_not_drawn_again() -> None:
    assert drawn(FakeOutput(terminal=True), ["a"], ["a"]) == "\x1b[1Ga\x1b[K\n"


def test_lines_that_are_no_longer_needed_are_cleared() -> None:
    assert drawn(FakeOutput(terminal=True), ["a", "b", "c"], ["d"], ["e"]).split("\x1b[1G")[2:] == [
        "\x1b[3Ad\x1b[K\n\x1b[K\n\x1b[K\n",
        "\x1b[3Ae\x1b[K\n\x1b[K\n\x1b[K\n",
    ]


@pytest.mark.parametrize("line", ["0123456789", "01234\x1b[32m56789\x1b[39m"])
def test_a_line_of_full_width_keeps_its_last_character(line: str) -> None:
    assert drawn(FakeOutput(terminal=True), [line]) == f"\x1b[1G{line}\n"


def test_what_does_not_fit_on_the_terminal_is_counted() -> None:
    text = drawn(FakeOutput(terminal=True, lines=4), ["h", "a", "b", "c", "d"])
    assert text == "\x1b[1Gh\x1b[K\na\x1b[K\n... and 3 more\n"


def test_what_goes_below_the_table_comes_only_if_there_is_room() -> None:
    for lines, below in ((5, "c\x1b[K\nd\x1b[K\n"), (4, "")):
        output = FakeOutput(terminal=True, lines=lines)
        Screen(output).draw(["a", "b"], ["c", "d"])
        assert output.stream.getvalue() == f"\x1b[1Ga\x1b[K\nb\x1b[K\n{below}"


def test_nothing_goes_below_a_table_in_a_pipe() -> None:
    output = FakeOutput(terminal=False)
    Screen(output).draw(["a"], ["b"])
    assert output.stream.getvalue() == "a\n\n"


def test_a_line_that_goes_on_in_the_next_row_is_drawn_over_as_a_whole() -> None:
    output = FakeOutput(terminal=True, columns=10)
    screen = Screen(output)
    screen.draw(["a"], ["0123456789012345"])
    screen.draw(["b"], [])
    assert output.stream.getvalue().endswith("\x1b[3Ab\x1b[K\n\x1b[K\n\x1b[K\n")


def test_quiet_draws_nothing() -> None:
    assert drawn(FakeOutput(terminal=True, quiet=True), ["a"]) == ""
