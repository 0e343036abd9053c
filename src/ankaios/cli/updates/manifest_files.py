"""Reads manifest files. Input: file names, or `-` for standard input. Output: one change of the desired state.

`read_update` makes the request that `apply` sends and `plan` evaluates.
"""

from collections.abc import Sequence
from typing import Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.input_file import STANDARD_INPUT, UnusableFile, advice, hint_of, read_file, read_standard_input
from ankaios.cli.terminal.output import CliError, CliOutput
from ankaios.common.errors import Rejected
from ankaios.common.manifest import DEPRECATED_WARNING, ManifestChange, change_of, is_deprecated, load_manifest
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


def read_update(call: CommandCall) -> base.UpdateStateRequest | None:
    """None if the manifests contain nothing. All errors in them are found before the server is contacted.

    With the option `-d`, the update deletes what the manifests describe.
    """
    deletes: bool = call.values["delete"]
    try:
        change = read_change(call.output, call.values["files"], call.values["agent"], need_agent=not deletes)
        if not change.masks:
            call.output.progress("Nothing to update.")
            return None
        new_state = base.CompleteState() if deletes else _new_state(change)
    except Rejected as error:
        raise CliError(f"Command failed: '{error}'", hint_of(error)) from error
    return base.UpdateStateRequest(newState=new_state, updateMask=change.masks)


def _new_state(change: ManifestChange) -> base.CompleteState:
    try:
        return COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    except Rejected as error:
        raise Rejected(f"Invalid manifest data provided: {error}") from error


def read_change(output: CliOutput, files: Sequence[str], agent: str | None, *, need_agent: bool) -> ManifestChange:
    """The change of all files together. If the first file is `-`, only standard input is read."""
    texts = [(STANDARD_INPUT, _read_stdin())] if files[:1] == [STANDARD_INPUT] else [(f, _read(f)) for f in files]
    manifests = []
    for file, text in texts:
        manifests.append(_load(file, text))
        if is_deprecated(manifests[-1]):
            output.progress(f"Warning: {DEPRECATED_WARNING}")
    return change_of(manifests, agent, need_agent=need_agent)


def _read_stdin() -> bytes:
    try:
        return read_standard_input()
    except OSError as error:
        raise Rejected(f"Standard input cannot be read: {error.strerror}") from error


def _read(file: str) -> bytes:
    try:
        return read_file(file)
    except FileNotFoundError as error:
        raise UnusableFile(f"File '{file}' not found!", advice(error)) from None
    except OSError as error:
        raise UnusableFile(f"File '{file}' cannot be read: {error.strerror}", advice(error)) from error


def _load(file: str, text: bytes) -> dict[str, Any]:
    if file == STANDARD_INPUT:
        return load_manifest(text, "standard input")
    try:
        return load_manifest(text, f"'{file}'")
    except Rejected as error:
        from shlex import quote

        raise UnusableFile(str(error), f"to see where: ank validate {quote(file)}") from error
