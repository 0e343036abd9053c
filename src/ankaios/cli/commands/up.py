"""`ank up`: runs a server and agents in one process, with the workloads of manifests.

Input: manifests and options. Output: a live table, or the output of the workloads. Owns a temporary run folder.
"""

import asyncio
import gc
import logging
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ankaios.cli.command_line.arguments import CommandCall, UsageError
from ankaios.cli.input_file import STANDARD_INPUT, hint_of
from ankaios.cli.session import RequestFailed
from ankaios.cli.terminal.output import CliError
from ankaios.cli.up.up_cluster import LocalCluster
from ankaios.cli.updates.manifest_files import read_change
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.log import setup_logging
from ankaios.common.names import check_agent_name
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.registry import RUNTIME_NAMES


def run(call: CommandCall) -> None:
    gc.enable()  # main() switched it off for short commands
    logging.getLogger().addHandler(logging.NullHandler())
    if call.output.verbose:
        setup_logging()
    _check_options(call)
    try:
        change = read_change(call.output, call.values["files"], None, need_agent=False)
        _run_in_folder(call, dict(change.desired_state))
    except Rejected as error:
        raise CliError(str(error), hint_of(error) or _validate_hint(call.values["files"])) from error
    except StartupFailed as error:
        raise CliError(error.reason) from error
    except RequestFailed as error:
        raise CliError(str(error), error.hint) from error


def _validate_hint(files: Sequence[str]) -> str:
    """The server checks all manifests together, so its errors do not name the file."""
    return "" if STANDARD_INPUT in files else f"to see where: ank validate {shlex.join(files)}"


def _check_options(call: CommandCall) -> None:
    """Report invalid options immediately: an agent would retry for ever."""
    for runtime in call.values["runtime"]:
        if runtime not in RUNTIME_NAMES:
            possible = f"\n  [possible values: {', '.join(RUNTIME_NAMES)}]"
            raise UsageError(f"invalid value '{runtime}' for '--runtime <RUNTIME>'{possible}", call.path)
    for name in call.values["name"]:
        try:
            check_agent_name(name or " ")
        except Rejected as error:
            raise UsageError(f"invalid value '{name}' for '--name <NAME>': {error}", call.path) from error


def _run_in_folder(call: CommandCall, desired: dict[str, Any]) -> None:
    """The folder is removed last: until the event loop is closed, threads may write into it."""
    folder = Path(tempfile.mkdtemp(prefix="ank-up-"))
    try:
        asyncio.run(LocalCluster(call, desired, folder).run())
    except ExceptionGroup as group:
        raise _first(group) from group
    finally:
        _end_native_workloads(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """The first error: the others followed from it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def _end_native_workloads(folder: Path) -> None:
    """End the processes that an agent was starting when it was cancelled. No agent would find them again."""
    for note in folder.glob("*_native/*/process"):
        if (found := NativeFolder(note.parent).processes()) and found[0].alive:
            with suppress(ProcessLookupError):
                os.killpg(found[0].pid, signal.SIGKILL)
