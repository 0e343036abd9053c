"""Runs a command line: parses it, loads the settings, and calls the function of the command.

Exit codes: 0 success; 1 failure, the reason is on standard error; 2 invalid usage; 141 the reader of the output closed
the pipe.
"""

import importlib
import os
from collections.abc import Sequence

from ankaios import __version__
from ankaios.cli.command_line.arguments import (
    CommandCall,
    HelpRequested,
    ParsedCommandLine,
    UsageError,
    VersionRequested,
    function_of,
)
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.settings import CliSettings, load_settings
from ankaios.cli.terminal.output import CliError, CliOutput, OutputFailed
from ankaios.cli.tree.ank import ANK
from ankaios.common.config import BadEnvironment
from ankaios.common.errors import AnkaiosError

FAILED = 1
WRONG_USAGE = 2
READER_GONE = 141


def run(words: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    output = CliOutput()
    try:
        return _run_reporting_errors(words, output)
    except BrokenPipeError:
        return READER_GONE
    except OutputFailed as error:
        return _report_failed_output(output, error)
    except OSError as error:
        from ankaios.cli.input_file import advice  # as all function-level imports of `ank`: see ADR 52

        what = f"cannot use '{error.filename}': " if error.filename else ""
        output.error(f"{what}{error.strerror or error}")
        output.hint(advice(error))
        return FAILED


def _report_failed_output(output: CliOutput, error: OutputFailed) -> int:
    try:
        output.error(f"Could not write the output: {error.strerror}")
    except OSError:
        return FAILED  # both streams are closed, for example with the window of the terminal
    return FAILED


def _run_reporting_errors(words: Sequence[str], output: CliOutput) -> int:
    try:
        if shell := os.environ.get("COMPLETE"):
            from ankaios.cli.command_line.completion import complete

            return complete(shell, words, output)
        return _run_command(parse_command_line(ANK, words), output)
    except HelpRequested as request:
        return _print_help(request, output)
    except VersionRequested:
        output.line(f"ank {__version__}")
        return 0
    except UsageError as error:
        from ankaios.cli.command_line.help import usage_error_text

        output.stderr_line(usage_error_text(error, output.paint_stderr))
        return WRONG_USAGE
    except AnkaiosError as error:
        output.error(str(error))
        output.hint(error.hint if isinstance(error, CliError) else "")
        return FAILED


def _run_command(parsed: ParsedCommandLine, output: CliOutput) -> int:
    command = parsed.path[-1]
    try:
        settings = load_settings(parsed.global_values, output)
    except BadEnvironment as error:
        raise UsageError(str(error), parsed.path[:1]) from error
    except CliError:
        if not command.offline:
            raise
        settings = CliSettings()
    module, _, function = function_of(parsed.path).partition(":")
    run_function = getattr(importlib.import_module(f"ankaios.cli.commands.{module}"), function)
    return run_function(CommandCall(parsed.path, parsed.values, settings, output)) or 0


def _print_help(request: HelpRequested, output: CliOutput) -> int:
    from ankaios.cli.command_line.help import help_text

    if request.missing:
        output.stderr_line(help_text(request.path, output.paint_stderr, output.width))
        return WRONG_USAGE
    output.line(help_text(request.path, output.paint, output.width))
    return 0
