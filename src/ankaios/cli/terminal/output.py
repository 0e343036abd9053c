"""Output of the commands: results, warnings, errors and hints, with colours where they are allowed.

Results and warnings go to standard output, errors and hints to standard error. Every message is flushed immediately,
because readers of a pipe wait for it. The words `error:`, `warn:` and `debug:` are coloured even in a pipe, as in
Eclipse Ankaios; everything else is coloured only on a terminal. `NO_COLOR` switches all colours off.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from ankaios.common.errors import AnkaiosError

PIPE_WIDTH = 65535
_FALLBACK_WIDTH = 80
_CHUNK = 1024  # characters; these always fit into a pipe that is reported as writable
_STYLES = {
    "error": ("\x1b[38;5;9m\x1b[1m", "\x1b[0m"),
    "warn": ("\x1b[38;5;11m", "\x1b[39m"),
    "debug": ("\x1b[38;5;12m", "\x1b[39m"),
    "heading": ("\x1b[1m\x1b[4m", "\x1b[0m"),
    "header": ("\x1b[1m", "\x1b[22m"),
    "literal": ("\x1b[1m", "\x1b[22m"),
    "good": ("\x1b[32m", "\x1b[39m"),
    "busy": ("\x1b[33m", "\x1b[39m"),
    "bad": ("\x1b[31m", "\x1b[39m"),
    "dim": ("\x1b[2m", "\x1b[22m"),
    "hint": ("\x1b[36m", "\x1b[39m"),
}


class CliError(AnkaiosError):
    """Print `error: <text>` and the hint, and exit with code 1."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class OutputFailed(OSError):
    """The output cannot be written, for example because the disk is full."""


class CliOutput:
    """Owns the two output streams of this process."""

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._colour = not environ.get("NO_COLOR")
        self._terminal_colour = self._colour and environ.get("TERM", "") != "dumb"
        self._hints: set[str] = set()
        self.quiet = False
        self.verbose = False
        self.is_terminal = self._stdout.isatty()
        self.wait_writable: Callable[[int], None] | None = None
        """Called with the descriptor before each chunk; returns when the descriptor is writable."""

    @property
    def width(self) -> int:
        """Columns of the terminal at this moment; a very large number for a pipe."""
        return self._size()[0]

    @property
    def height(self) -> int:
        """Lines of the terminal; 0 if unknown."""
        return self._size()[1]

    def _size(self) -> tuple[int, int]:
        if not self.is_terminal:
            return PIPE_WIDTH, 0
        try:
            size = os.get_terminal_size(self._stdout.fileno())
        except (OSError, ValueError):
            return _FALLBACK_WIDTH, 0
        return size.columns or _FALLBACK_WIDTH, size.lines

    def paint(self, text: str, style: str) -> str:
        """The text in the style, if standard output is a terminal with colours."""
        return _styled(text, style) if self.is_terminal and self._terminal_colour else text

    def paint_stderr(self, text: str, style: str) -> str:
        return _styled(text, style) if self._terminal_colour and self._stderr.isatty() else text

    def write(self, text: str) -> None:
        if self.wait_writable is None:
            _print(self._stdout, text)
            return
        for start in range(0, len(text), _CHUNK):
            self.wait_writable(self._stdout.fileno())
            _print(self._stdout, text[start : start + _CHUNK])

    def line(self, text: str) -> None:
        self.write(text + "\n")

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def json(self, form: Any) -> None:
        """Print plain data for programs."""
        import json  # takes 5 ms

        self.line(json.dumps(form, ensure_ascii=False, indent=2))

    def progress(self, text: str) -> None:
        if not self.quiet:
            self.line(text)

    def warn(self, text: str) -> None:
        self.line(f"{self._prefix('warn')} {text}")

    def debug(self, text: str) -> None:
        if self.verbose and not self.quiet:
            self.line(f"{self._prefix('debug')} {text}")

    def error(self, text: str) -> None:
        self.stderr_line(f"{self._prefix('error')} {text}")

    def _prefix(self, kind: str) -> str:
        return _styled(f"{kind}:", kind) if self._colour else f"{kind}:"

    def hint(self, text: str) -> None:
        """Print the hint once, however often it is given."""
        if text and not self.quiet and text not in self._hints:
            self._hints.add(text)
            self.stderr_line(f"{self.paint_stderr('hint:', 'hint')} {text}")

    def stderr_line(self, text: str) -> None:
        _print(self._stderr, text + "\n")


def _print(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.errno, error.strerror) from error


def _styled(text: str, style: str) -> str:
    start, end = _STYLES[style]
    return f"{start}{text}{end}"
