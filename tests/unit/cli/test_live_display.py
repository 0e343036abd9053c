"""Lines that are drawn repeatedly."""

import io
import re

import pytest

from ankaios.cli.terminal.live_display import LiveDisplay, visible_lines
from ankaios.cli.terminal.output import CliOutput


class FakeOutput(CliOutput):
    """A terminal of a chosen size that stores what was written."""

    def __init__(self, *, terminal: bool, lines: int = 24, quiet: bool = False) -> None:
        self.stream = io.StringIO()
        super().__init__(self.stream, io.StringIO(), {})
        self.quiet = quiet
        self.is_terminal = terminal
        self._lines = lines

    def _size(self) -> tuple[int, int]:
        return 80, self._lines

    @property
    def written(self) -> str:
        return self.stream.getvalue()


def on_screen(written: str) -> list[str]:
    """The lines that a terminal shows: interprets the control sequences that move the cursor or clear a line."""
    screen, row = [""], 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\n|\r|[^\x1b\n\r]+", written):
        if token == "\n":
            row += 1
            screen += [""] * (row + 1 - len(screen))
        elif token.endswith("A") and token[0] == "\x1b":
            row -= int(token[2:-1])
        elif token == "\x1b[2K":
            screen[row] = ""
        elif token[0] not in "\x1b\r":
            screen[row] = token + screen[row][len(token) :]
    return screen


@pytest.fixture(autouse=True)
def _a_terminal_with_cursor_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def shown(output: FakeOutput, *tables: list[str]) -> str:
    with LiveDisplay(output) as display:
        for table in tables:
            display.show(table)
    return output.written


def test_in_a_pipe_the_blocks_follow_each_other_with_an_empty_line_between() -> None:
    assert shown(FakeOutput(terminal=False), ["a", "b"], ["c"]) == "a\nb\n\nc\n\n"


def test_on_a_terminal_the_lines_replace_the_previous_ones() -> None:
    output = FakeOutput(terminal=True)
    with LiveDisplay(output) as display:
        display.show(["first", "second"])
        display.show(["1st", "\x1b[32m2nd\x1b[39m", "3rd"])
        assert [line.rstrip() for line in on_screen(output.written)] == ["1st", "2nd", "3rd"]
        display.show(["last"])
        assert [line.rstrip() for line in on_screen(output.written)] == ["last", "", ""]
    assert "\x1b[32m2nd" in output.written


def test_the_cursor_is_hidden_while_lines_are_redrawn_and_visible_at_the_end() -> None:
    written = shown(FakeOutput(terminal=True), ["a"])
    assert written.index("\x1b[?25l") < written.index("a") < written.rindex("\x1b[?25h")
    assert written.endswith("\n\x1b[?25h")


def test_lines_that_are_already_shown_are_not_drawn_again() -> None:
    assert shown(FakeOutput(terminal=True), ["a"], ["a"]).count("a") == shown(FakeOutput(terminal=True), ["a"]).count(
        "a"
    )


def test_lines_that_do_not_fit_on_the_terminal_are_counted() -> None:
    assert visible_lines(["h", "a", "b", "c", "d"], (), 4) == ["h", "a", "... and 3 more"]
    assert visible_lines(["h", "a", "b"], (), 4) == ["h", "a", "b"]
    assert visible_lines(["h", "a", "b"], (), 0) == ["h", "a", "b"]  # the height is unknown


def test_the_footer_is_shown_only_if_there_is_space() -> None:
    assert visible_lines(["a", "b"], ["c", "d"], 5) == ["a", "b", "c", "d"]
    assert visible_lines(["a", "b"], ["c", "d"], 4) == ["a", "b"]


def test_a_pipe_has_no_footer() -> None:
    output = FakeOutput(terminal=False)
    LiveDisplay(output).show(["a"], ["b"])
    assert output.written == "a\n\n"


def test_quiet_shows_nothing() -> None:
    assert shown(FakeOutput(terminal=True, quiet=True), ["a"]) == ""
