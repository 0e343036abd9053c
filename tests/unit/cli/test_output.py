"""Colours, streams, and the printed messages."""

import io

from ankaios.cli.terminal.output import PIPE_WIDTH, CliOutput


def an_output(
    *, quiet: bool = False, verbose: bool = False, **environ: str
) -> tuple[CliOutput, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    output = CliOutput(stdout, stderr, environ)
    output.quiet, output.verbose = quiet, verbose
    return output, stdout, stderr


def test_the_prefixes_of_messages_are_coloured_even_in_a_pipe() -> None:
    output, stdout, stderr = an_output(verbose=True)
    output.error("e")
    output.warn("w")
    output.debug("d")
    assert stderr.getvalue() == "\x1b[38;5;9m\x1b[1merror:\x1b[0m e\n"
    assert stdout.getvalue() == "\x1b[38;5;11mwarn:\x1b[39m w\n\x1b[38;5;12mdebug:\x1b[39m d\n"


def test_no_color_counts_only_if_it_is_not_empty() -> None:
    output, _, stderr = an_output(NO_COLOR="1")
    output.error("e")
    assert stderr.getvalue() == "error: e\n"
    output, _, stderr = an_output(NO_COLOR="")
    output.error("e")
    assert "\x1b" in stderr.getvalue()


def test_quiet_prints_results_warnings_and_errors() -> None:
    output, stdout, stderr = an_output(quiet=True, verbose=True, NO_COLOR="1")
    output.line("result")
    output.progress("progress")
    output.debug("debug")
    output.warn("warning")
    output.error("error")
    output.hint("hint")
    assert (stdout.getvalue(), stderr.getvalue()) == ("result\nwarn: warning\n", "error: error\n")


def test_a_hint_is_printed_to_standard_error_once_and_an_empty_hint_not_at_all() -> None:
    output, stdout, stderr = an_output()
    output.hint("")
    output.hint("use this")
    output.hint("use this")
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "hint: use this\n")


def test_a_pipe_is_very_wide_and_has_no_other_colours() -> None:
    output, _, _ = an_output()
    assert (output.width, output.height) == (PIPE_WIDTH, 0)
    assert output.paint("x", "good") == "x"


def test_a_terminal_without_size_counts_as_80_columns() -> None:
    output, _, _ = an_output(TERM="xterm")
    output.is_terminal = True
    assert output.width == 80
    assert output.paint("x", "good") == "\x1b[32mx\x1b[39m"


def test_a_dumb_terminal_gets_no_styles() -> None:
    output, _, _ = an_output(TERM="dumb")
    output.is_terminal = True
    assert output.paint("x", "good") == "x"
