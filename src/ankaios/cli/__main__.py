"""`ank`: parses the words, wires settings and output, runs the chosen command.

Exit codes: 0 done; 1 failed, the reason is on standard error; 2 wrong usage; 141 the reader of the output went away.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from ankaios.cli.arguments import Call, HelpWanted, UsageError, VersionWanted
from ankaios.cli.commands import load_module
from ankaios.cli.output import CliError, Output, OutputFailed
from ankaios.cli.parser import parse
from ankaios.cli.root import RootCommand
from ankaios.common.errors import AnkaiosError

FAILED = 1
WRONG_USAGE = 2
READER_GONE = 141


def main() -> NoReturn:
    """Runs, and leaves without tidying up: what the kernel frees need not be freed by us first."""
    import gc

    # Nothing this short-lived is worth a collection while it loads.
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _prepare_streams()
    os._exit(run(sys.argv[1:]))


def _prepare_streams() -> None:
    """Always UTF-8, whatever the locale says; a closed stream swallows what is written."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]


def run(words: Sequence[str]) -> int:
    """Everything but the process: returns the exit code."""
    output = Output()
    try:
        return _answer(words, output)
    except BrokenPipeError:
        return READER_GONE
    except OutputFailed as fault:
        return _tell_failed_output(output, fault)
    except OSError as fault:
        from ankaios.cli.input_file import advice

        what = f"cannot use '{fault.filename}': " if fault.filename else ""
        output.error(f"{what}{fault.strerror or fault}")
        output.hint(advice(fault))
        return FAILED


def _tell_failed_output(output: Output, fault: OutputFailed) -> int:
    try:
        output.error(f"Could not write the output: {fault.strerror}")
    except OSError:
        return FAILED  # both streams are gone, as with a window that was closed
    return FAILED


def _answer(words: Sequence[str], output: Output) -> int:
    try:
        if shell := os.environ.get("COMPLETE"):
            from ankaios.cli.completion import complete

            return complete(shell, words, output)
        return _run_command(parse(RootCommand(), words), output)
    except HelpWanted as wanted:
        return _show_help(wanted, output)
    except VersionWanted:
        from ankaios import __version__

        output.line(f"ank {__version__}")
        return 0
    except UsageError as fault:
        from ankaios.cli.help import usage_error_text

        output.stderr_line(usage_error_text(fault, output.paint_stderr))
        return WRONG_USAGE
    except CliError as fault:
        output.error(str(fault))
        output.hint(fault.hint)
        return FAILED
    except AnkaiosError as fault:
        output.error(str(fault))
        return FAILED


def _run_command(call: Call, output: Output) -> int:
    from ankaios.cli.settings import Settings, load_settings
    from ankaios.common.config import BadEnvironment

    try:
        call.settings = load_settings(call.global_values, output)
    except BadEnvironment as fault:
        raise UsageError(str(fault), call.path[:1]) from fault
    except CliError:
        if not call.command.offline:
            raise
        call.settings = Settings()
    call.output = output
    return _function(call.command.run)(call)


def _function(reference: str) -> Callable[[Call], int]:
    module, _, name = reference.partition(":")
    function: Callable[[Call], int] = getattr(load_module(module), name)
    return function


def _show_help(wanted: HelpWanted, output: Output) -> int:
    from ankaios.cli.help import help_text

    if wanted.missing:
        output.stderr_line(help_text(wanted.path, output.paint_stderr, output.width))
        return WRONG_USAGE
    output.line(help_text(wanted.path, output.paint, output.width))
    return 0


if __name__ == "__main__":
    main()
