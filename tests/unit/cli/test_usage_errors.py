"""Exact usage errors: the transcript has a command line after `$ ` and then the text on standard error."""

import io
import re
import shlex
from pathlib import Path

import pytest

from ankaios.cli import program
from ankaios.cli.terminal.output import CliOutput

TRANSCRIPT = (Path(__file__).parent / "usage_errors.txt").read_text()
ENTRIES = re.findall(r"^\$ (ank .*)\n((?:(?!\$ ).*\n)+?)(?=\n\$ |\Z)", TRANSCRIPT, re.MULTILINE)


@pytest.mark.parametrize(("command", "text"), ENTRIES, ids=[command for command, _ in ENTRIES])
def test_a_usage_error_is_printed_as_in_the_transcript(
    command: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    monkeypatch.setattr(program, "CliOutput", lambda: CliOutput(stdout, stderr, {}))
    assert program.run(shlex.split(command)[1:]) == program.WRONG_USAGE
    assert (stdout.getvalue(), stderr.getvalue()) == ("", text)


def test_the_transcript_is_read_completely() -> None:
    assert len(ENTRIES) == TRANSCRIPT.count("\n\nFor more information, try '--help'.\n") > 80
