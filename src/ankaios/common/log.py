"""Log lines of server and agent on stderr: `[<UTC seconds>Z LEVEL module] text`, or JSON objects.

Input: the environment variables `RUST_LOG` (directives of the env_logger syntax: `level`, `module=level` lists and an
optional `/regular expression` at the end), `RUST_LOG_STYLE` (`auto`, `always`, `never`) and `JOURNAL_STREAM`, by which
systemd shows that stderr is its journal. Output: a configured `logging` root. Owns nothing. The CLI does not use it.

Modules are named as in Eclipse Ankaios (`ank_server::shell` for `ankaios.server.shell`), so that existing directives
keep their meaning; dotted Python names are accepted as well.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from msgspec import Struct
from msgspec.json import encode as encode_json

from ankaios.common.errors import StartupFailed

TRACE = 5
_OFF = logging.CRITICAL + 1
_LEVELS = {
    "off": _OFF,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}
_WORDS = ((logging.ERROR, "ERROR"), (logging.WARNING, "WARN "), (logging.INFO, "INFO "), (logging.DEBUG, "DEBUG"))
# The journal reads the priority of a line from this prefix and removes the prefix, so `journalctl -p warning` works.
_MARKS = {"ERROR": "<3>", "WARN ": "<4>", "INFO ": "<6>", "DEBUG": "<7>", "TRACE": "<7>"}
_COLOURS = {"ERROR": "31", "WARN ": "33", "INFO ": "32", "DEBUG": "34", "TRACE": "36"}
_CRATES = (
    ("ankaios.server", "ank_server"),
    ("ankaios.agent", "ank_agent"),
    ("ankaios.runtimes", "ank_agent::runtimes"),
    ("ankaios.devices", "ank_agent::devices"),
    ("ankaios.middleware", "grpc"),
    ("ankaios.grpc", "grpc"),
    ("ankaios.common", "common"),
)
# Text from other processes must not move the cursor, colour the terminal or start a new line.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_CONTROL[ord("\n")] = "\n    "


class Directives(Struct, frozen=True):
    """Which records are shown: pairs of module prefix and level, longest prefix last, and an optional pattern."""

    levels: tuple[tuple[str, int], ...]
    pattern: re.Pattern[str] | None = None

    def level_of(self, module: str) -> int:
        for prefix, level in reversed(self.levels):
            if module.startswith(prefix):
                return level
        return _OFF

    @property
    def lowest(self) -> int:
        return min((level for _, level in self.levels), default=_OFF)

    def allow(self, module: str, level: int, text: str) -> bool:
        return level >= self.level_of(module) and (self.pattern is None or self.pattern.search(text) is not None)


def parse_directives(spec: str) -> tuple[Directives, list[str]]:
    """Parse a `RUST_LOG` text. Invalid directives are reported and ignored."""
    parts = spec.split("/")
    if len(parts) > 2:
        return Directives((("", logging.ERROR),)), [f"invalid logging spec '{spec}', ignoring it (too many '/'s)"]
    levels: dict[str, int] = {}
    faults: list[str] = []
    for directive in filter(None, (part.strip() for part in parts[0].split(","))):
        if parsed := _parse_directive(directive):
            levels[parsed[0]] = parsed[1]
        else:
            faults.append(f"invalid logging spec '{directive}', ignoring it")
    pattern = None
    if len(parts) == 2:
        try:
            pattern = re.compile(parts[1])
        except re.error as error:
            faults.append(f"invalid regex filter '{parts[1]}', ignoring it: {error}")
    ordered = sorted((levels or {"": logging.ERROR}).items(), key=lambda item: len(item[0]))
    return Directives(tuple(ordered), pattern), faults


def _parse_directive(directive: str) -> tuple[str, int] | None:
    name, separator, word = (part.strip() for part in directive.partition("="))
    if separator:
        level = _LEVELS.get(word.lower()) if word else TRACE
        return (module_of(name), level) if level is not None and "=" not in word else None
    if name.lower() in _LEVELS:
        return "", _LEVELS[name.lower()]
    return module_of(name), TRACE


def module_of(logger_name: str) -> str:
    """Return the module name that is shown in a line; the root logger has none."""
    if logger_name == "root":
        return ""
    for package, crate in _CRATES:
        if logger_name == package or logger_name.startswith(package + "."):
            return (crate + logger_name[len(package) :]).replace(".", "::")
    return logger_name.replace(".", "::")


def level_word(level: int) -> str:
    """Return a word of five characters, so that the texts are aligned."""
    return next((word for limit, word in _WORDS if level >= limit), "TRACE")


class LineFormatter(logging.Formatter):
    """One line for each record; further lines are indented so that no text looks like a record."""

    def __init__(self, coloured: bool, for_journal: bool = False) -> None:
        super().__init__()
        self._coloured = coloured
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        lines = self._head(record) + text.translate(_CONTROL)
        if self._for_journal:
            mark = _MARKS[level_word(record.levelno)]
            return mark + lines.replace("\n", "\n" + mark)
        return lines

    def _head(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        word, module = level_word(record.levelno), module_of(record.name)
        opening, closing = "[", "] "
        if self._coloured:
            word = f"\x1b[{_COLOURS[word]}m{word}\x1b[0m"
            opening, closing = "\x1b[90m[\x1b[0m", "\x1b[90m]\x1b[0m "
        return f"{opening}{stamp} {word}{' ' + module if module else ''}{closing}"


class JsonFormatter(logging.Formatter):
    """One JSON object in one line for each record. The names of the fields are part of the public interface.

    `time` (UTC, milliseconds), `level`, `module`, `message`; with an error also `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": level_word(record.levelno).strip().lower(),
            "module": module_of(record.name),
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return encode_json(fields).decode()


class _DirectiveFilter(logging.Filter):
    def __init__(self, directives: Directives) -> None:
        super().__init__()
        self._directives = directives

    def filter(self, record: logging.LogRecord) -> bool:
        return self._directives.allow(module_of(record.name), record.levelno, record.getMessage())


def wants_colour(style: str, is_terminal: bool) -> bool:
    return style == "always" or (style != "never" and is_terminal)


def is_journal(variable: str, stream: TextIO) -> bool:
    """Return whether the stream is the journal. `variable` is `<device>:<inode>` of the stream of the service.

    The stream may have been redirected since the start of the service.
    """
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return variable == f"{found.st_dev}:{found.st_ino}"


def setup_logging(
    environ: Mapping[str, str] | None = None, stream: TextIO | None = None, log_format: str = "text"
) -> None:
    """Configure logging at the start of a program. A second call, with the settings, replaces the first one."""
    variables = os.environ if environ is None else environ
    target = sys.stderr if stream is None else stream
    directives, faults = parse_directives(variables.get("RUST_LOG", "info"))
    handler = logging.StreamHandler(target)
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        coloured = wants_colour(variables.get("RUST_LOG_STYLE", "auto"), target.isatty())
        handler.setFormatter(LineFormatter(coloured, is_journal(variables.get("JOURNAL_STREAM", ""), target)))
    handler.addFilter(_DirectiveFilter(directives))
    logging.addLevelName(TRACE, "TRACE")
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(directives.lowest)
    for fault in faults:
        print(f"warning: {fault}", file=target)


def log_startup_error(error: StartupFailed) -> None:
    """Log a start error without module: `[… ERROR] <context>: '<reason>'`."""
    logging.root.error("%s", error)
