"""Applying manifests: files to one change, the change to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call
from ankaios.cli.input_file import STANDARD_INPUT, Unreadable, advice, hint_of, read_file, read_standard_input
from ankaios.cli.output import CliError, Output
from ankaios.common.errors import Rejected
from ankaios.common.manifest import DEPRECATED_WARNING, ManifestChange, change_of, is_deprecated, load_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ankaios.cli.connection import Session
    from ankaios.common.pb import ank_base_pb2 as base


def run(call: Call) -> int:
    """Everything that can be wrong with the manifests is found before the server is asked."""
    deleting: bool = call.values["delete"]
    try:
        change = read_change(call.output, call.values["files"], call.values["agent"], need_agent=not deleting)
        if not change.masks:
            call.output.progress("Nothing to update.")
            return 0
        new_state = _state_of(change, deleting)
    except Rejected as fault:
        raise CliError(f"Command failed: '{fault}'", hint_of(fault)) from fault
    _send(call, change, new_state)
    return 0


def read_change(output: Output, files: Sequence[str], agent: str | None, *, need_agent: bool) -> ManifestChange:
    texts = [_read_stdin()] if files[:1] == [STANDARD_INPUT] else list(map(_read, files))
    manifests = []
    for file, text in texts:
        manifests.append(_load(file, text))
        if is_deprecated(manifests[-1]):
            output.progress(f"Warning: {DEPRECATED_WARNING}")
    return change_of(manifests, agent, need_agent=need_agent)


def _read_stdin() -> tuple[str, bytes]:
    try:
        return STANDARD_INPUT, read_standard_input()
    except OSError as fault:
        raise Rejected(f"Standard input cannot be read: {fault.strerror}") from fault


def _read(file: str) -> tuple[str, bytes]:
    try:
        return file, read_file(file)
    except FileNotFoundError as fault:
        raise Unreadable(f"File '{file}' not found!", advice(fault)) from None
    except OSError as fault:
        raise Unreadable(f"File '{file}' cannot be read: {fault.strerror}", advice(fault)) from fault


def _load(file: str, text: bytes) -> dict[str, Any]:
    if file == STANDARD_INPUT:
        return load_manifest(text, "standard input")
    try:
        return load_manifest(text, f"'{file}'")
    except Rejected as fault:
        from shlex import quote

        raise Unreadable(str(fault), f"to see where: ank validate {quote(file)}") from fault


def _state_of(change: ManifestChange, deleting: bool) -> base.CompleteState:
    from ankaios.common.model.state import COMPLETE_STATE
    from ankaios.common.pb import ank_base_pb2 as base

    if deleting:
        return base.CompleteState()
    try:
        return COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    except Rejected as fault:
        raise Rejected(f"Invalid manifest data provided: {fault}") from fault


def _send(call: Call, change: ManifestChange, new_state: base.CompleteState) -> None:
    from ankaios.cli.connection import run_session
    from ankaios.cli.failures import told_as
    from ankaios.cli.update import update_and_wait

    # A changed configuration item changes every workload that uses it, whoever that is.
    names = change.desired_state.get("workloads", {}).keys()

    def action(session: Session) -> None:
        update_and_wait(call, session, new_state, change.masks, names)
        session.goodbye()

    with told_as():
        run_session(call, action)
