"""Tables: padding, wrapping, cutting."""

from hypothesis import given
from hypothesis import strategies as st

from ankaios.cli.terminal.table import CUT_LAST, CUT_LINES, WRAP, clip, display_width, one_line, printable, table_lines

HEADER = ("A", "LAST")


def test_columns_are_padded_to_the_widest_cell_with_three_blanks_between() -> None:
    assert table_lines(HEADER, [("long", "x"), ("", "y")], 100) == ["A      LAST", "long   x   ", "       y   "]


def test_without_rows_only_the_header_is_printed() -> None:
    assert table_lines(("CONFIG",), [], 100) == ["CONFIG"]


def test_a_long_last_cell_is_wrapped_character_by_character() -> None:
    assert table_lines(HEADER, [("a", "0123456789")], 8, WRAP) == [
        "A   LAST",
        "a   0123",
        "    4567",
        "    89  ",
    ]


def test_a_long_last_cell_is_cut_with_dots() -> None:
    assert table_lines(HEADER, [("a", "0123456789")], 9, CUT_LAST) == ["A   LAST ", "a   01..."]


def test_if_the_header_does_not_fit_whole_lines_are_cut() -> None:
    for overflow in (WRAP, CUT_LAST, CUT_LINES):
        assert table_lines(HEADER, [("a", "0123456789")], 7, overflow) == ["A   LAS", "a   012"]


def test_long_names_are_shortened_so_that_every_column_is_visible() -> None:
    header = ("NAME", "AGENT", "STATE", "INFO")
    row = ("a-long-name-of-a-workload", "some-agent", "Pending(Initial)", "why")
    assert table_lines(header, [row], 46, WRAP) == [
        "NAME       AGENT       STATE              INFO",
        "a-long-…   some-age…   Pending(Initial)   why ",
    ]
    assert table_lines(header, [row], 28, WRAP) == [
        "NAME   AGENT   STATE    INFO",
        "a-l…   some…   Pendi…   why ",
    ]


def test_tables_that_are_only_cut_keep_their_header_whole_if_it_fits() -> None:
    assert table_lines(HEADER, [("a", "0123456789")], 8, CUT_LINES) == ["A   LAST", "a   0123"]


def test_wide_characters_take_two_columns() -> None:
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1
    assert clip("日本語", 5) == "日本"
    assert table_lines(HEADER, [("日", "x"), ("a", "y")], 100) == ["A    LAST", "日   x   ", "a    y   "]


def test_colours_are_put_around_finished_cells() -> None:
    painted = table_lines(HEADER, [("a", "b")], 100, paint=lambda cell, row, column: f"<{row}{column}{cell}>")
    assert painted == ["<00A>   <01LAST>", "<10a>   <11b   >"]


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[2Jb\tc\r") == "a\ufffd[2Jb\ufffdc\ufffd"
    assert printable("grün 日本") == "grün 日本"


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=40))), st.integers(1, 60))
def test_no_line_is_wider_than_the_limit(rows: list[tuple[str, str]], width: int) -> None:
    for overflow in (WRAP, CUT_LAST, CUT_LINES):
        for line in table_lines(HEADER, rows, width, overflow):
            # one character that is wider than the whole line is still printed
            assert display_width(line) <= max(width, 2)


@given(st.text(alphabet="abc", min_size=1), st.integers(8, 40))
def test_wrapping_keeps_all_characters(text: str, width: int) -> None:
    lines = table_lines(HEADER, [("a", text)], width, WRAP)
    assert "".join(line[4:].rstrip() for line in lines[1:]) == text


def test_a_text_of_several_lines_becomes_one_line() -> None:
    assert one_line("Error: no such image\nTrying to pull\r\n\x1b[2Jdone") == (
        "Error: no such image Trying to pull \N{REPLACEMENT CHARACTER}[2Jdone"
    )
