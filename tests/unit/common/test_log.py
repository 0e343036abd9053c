"""RUST_LOG directives and the form of log lines."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.common.errors import StartupFailed
from ankaios.common.log import TRACE, LineFormatter, log_startup_error, module_of, parse_directives, setup_logging

OFF = logging.CRITICAL + 1


@pytest.fixture(autouse=True)
def restored_root_logger() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def a_record(text: str, level: int = logging.INFO, name: str = "ankaios.server.shell") -> logging.LogRecord:
    record = logging.LogRecord(name, level, "", 0, text, None, None)
    record.created = 1772352930.9
    return record


@pytest.mark.parametrize(
    ("spec", "module", "level"),
    [
        ("info", "ank_server", logging.INFO),
        ("WARN", "anything", logging.WARNING),
        ("", "ank_server", logging.ERROR),
        ("ank_server=debug", "ank_server::shell", logging.DEBUG),
        ("ank_server=debug", "ank_agent", OFF),
        ("info,ank_server=debug", "ank_agent", logging.INFO),
        ("debug,ank_server=off", "ank_server::core", OFF),
        ("ank_server=trace,ank_server::core=warn", "ank_server::core::brokers", logging.WARNING),
        ("ank_server::core=warn,ank_server=trace", "ank_server::core::brokers", logging.WARNING),
        ("ank_agent", "ank_agent::devices", TRACE),
        ("ank_agent=", "ank_agent", TRACE),
        ("ankaios.agent=debug", "ank_agent::core", logging.DEBUG),
        ("info , grpc = debug", "grpc::server", logging.DEBUG),
        ("info,error", "x", logging.ERROR),
        (",,info,", "x", logging.INFO),
    ],
)
def test_directives_choose_the_level_of_a_module(spec: str, module: str, level: int) -> None:
    directives, faults = parse_directives(spec)
    assert directives.level_of(module) == level
    assert faults == []


@pytest.mark.parametrize("spec", ["info,a=b", "info,a=b=c", "info/[", "info/a/b"])
def test_an_invalid_directive_is_reported_and_the_others_are_used(spec: str) -> None:
    directives, faults = parse_directives(spec)
    assert len(faults) == 1
    assert directives.level_of("x") in (logging.INFO, logging.ERROR)


def test_a_pattern_after_the_slash_filters_texts() -> None:
    directives, _ = parse_directives("info/agent.*gone")
    assert directives.allow("m", logging.INFO, "the agent is gone")
    assert not directives.allow("m", logging.INFO, "the agent is here")
    assert not directives.allow("m", logging.DEBUG, "the agent is gone")


def test_modules_are_named_as_in_eclipse_ankaios() -> None:
    names = ["ankaios.server", "ankaios.agent.core.x", "ankaios.runtimes.registry", "root", "h2", "ankaios.serverx"]
    expected = ["ank_server", "ank_agent::core::x", "ank_agent::runtimes::registry", "", "h2", "ankaios::serverx"]
    names += ["ankaios.middleware.server", "ankaios.grpc.server"]
    expected += ["grpc::server", "grpc::server"]
    assert [module_of(name) for name in names] == expected


def test_a_line_has_utc_seconds_a_padded_level_and_the_module() -> None:
    assert LineFormatter(False).format(a_record("x")) == "[2026-03-01T08:15:30Z INFO  ank_server::shell] x"
    line = LineFormatter(False).format(a_record("x", logging.WARNING, "ankaios.agent"))
    assert line == "[2026-03-01T08:15:30Z WARN  ank_agent] x"
    assert LineFormatter(False).format(a_record("x", TRACE)).startswith("[2026-03-01T08:15:30Z TRACE ")


def test_text_of_other_programs_cannot_imitate_a_line_or_control_the_terminal() -> None:
    line = LineFormatter(False).format(a_record("name 'x\n[2026-03-01T08:15:30Z ERROR] y\x1b[2J\r'"))
    assert line.endswith("name 'x\n    [2026-03-01T08:15:30Z ERROR] y\\x1b[2J\\x0d'")


def test_an_exception_is_shown_with_its_trace() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.LogRecord("ankaios.server", logging.ERROR, "", 0, "failed", None, sys.exc_info())
    assert "failed\n    Traceback" in LineFormatter(False).format(record)


def test_colours_mark_the_level_only() -> None:
    line = LineFormatter(True).format(a_record("x", logging.ERROR))
    assert "\x1b[31mERROR\x1b[0m ank_server::shell" in line
    assert line.endswith(" x")


def test_setup_filters_by_module_and_counts_only_the_last_call() -> None:
    stream = io.StringIO()
    setup_logging({}, io.StringIO())
    setup_logging({"RUST_LOG": "warn,ank_server=debug"}, stream)
    logging.getLogger("ankaios.server.x").debug("shown")
    logging.getLogger("ankaios.server.x").log(TRACE, "hidden")
    logging.getLogger("ankaios.agent.x").info("hidden")
    assert re.fullmatch(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ DEBUG ank_server::x\] shown\n", stream.getvalue())


@pytest.mark.parametrize(("style", "coloured"), [("always", True), ("never", False), ("auto", False)])
def test_the_style_selects_colours_without_a_terminal(style: str, coloured: bool) -> None:
    stream = io.StringIO()
    setup_logging({"RUST_LOG_STYLE": style}, stream)
    logging.getLogger("ankaios.server").info("x")
    assert ("\x1b" in stream.getvalue()) == coloured


def test_invalid_directives_are_reported_as_warning() -> None:
    stream = io.StringIO()
    setup_logging({"RUST_LOG": "info,x=y"}, stream)
    assert stream.getvalue() == "warning: invalid logging spec 'x=y', ignoring it\n"


def test_start_errors_contain_no_module() -> None:
    stream = io.StringIO()
    setup_logging({}, stream)
    log_startup_error(StartupFailed("server error", "why"))
    assert re.fullmatch(r"\[\S+Z ERROR\] server error: 'why'\n", stream.getvalue())


def logged(path: Path, stream: str) -> list[str]:
    """Lines of a warning of two lines and an info in a file that is, or is not, the stream `JOURNAL_STREAM` names."""
    with path.open("w") as target:
        found = os.fstat(target.fileno())
        journal = stream.format(device=found.st_dev, inode=found.st_ino)
        setup_logging({"JOURNAL_STREAM": journal}, target)
        logging.getLogger("ankaios.server").warning("one\ntwo")
        logging.getLogger("ankaios.server").info("three")
    return re.sub(r"\[\S+ ", "[", path.read_text()).splitlines()


def test_each_line_for_the_journal_has_a_priority(tmp_path: Path) -> None:
    lines = logged(tmp_path / "log", "{device}:{inode}")
    assert lines == ["<4>[WARN  ank_server] one", "<4>    two", "<6>[INFO  ank_server] three"]


@pytest.mark.parametrize("stream", ["", "{device}:1{inode}", "nonsense"])
def test_lines_have_no_priority_if_stderr_is_not_the_journal(tmp_path: Path, stream: str) -> None:
    assert logged(tmp_path / "log", stream) == ["[WARN  ank_server] one", "    two", "[INFO  ank_server] three"]


def test_json_lines_have_stable_fields_and_no_line_breaks() -> None:
    stream = io.StringIO()
    setup_logging({}, stream, log_format="json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("ankaios.server.shell").exception("it \x1b[31m failed\n%s", "here")
    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert list(fields) == ["time", "level", "module", "message", "exception"]
    assert fields["level"] == "error"
    assert fields["module"] == "ank_server::shell"
    assert fields["message"] == "it \x1b[31m failed\nhere"
    assert "two\nlines" in fields["exception"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["time"])
