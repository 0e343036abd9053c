"""The values that shell completion offers for a kind of argument. Most are requested from the server.

The time limit is short and errors are ignored: without a response nothing is offered.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.session import Session
from ankaios.cli.settings import load_settings
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.views.workload_rows import state_words
from ankaios.common.errors import AnkaiosError
from ankaios.common.pb import ank_base_pb2 as base

LIMIT_MS = 1000


def _runtime_names() -> Iterable[str]:
    from ankaios.runtimes.registry import RUNTIME_NAMES

    return RUNTIME_NAMES


def _state_names() -> Iterable[str]:
    kinds = [field.enum_type for field in base.ExecutionState.DESCRIPTOR.fields if field.enum_type is not None]
    return [state_words(kind, value.name) for kind in kinds for value in kind.values if kind.name != "Removed"]


FIXED: dict[str, Callable[[], Iterable[str]]] = {"runtimes": _runtime_names, "states": _state_names}
NAMES: dict[str, tuple[str, Callable[[base.CompleteState], Iterable[str]]]] = {
    "workloads": ("desiredState.workloads.*.agent", lambda state: state.desiredState.workloads.workloads),
    "configs": ("desiredState.configs", lambda state: state.desiredState.configs.configs),
    "deviceConfigurations": (
        "desiredState.deviceConfigurations",
        lambda state: state.desiredState.deviceConfigurations.deviceConfigurations,
    ),
    "agents": ("agents", lambda state: state.agents.agents),
    "devices": ("deviceInstances", lambda state: state.deviceInstances.deviceInstances),
}
"""The mask and the names of each kind of name in the state."""


def known_values(kind: str, global_values: dict[str, Any]) -> Iterable[str]:
    if kind in FIXED:
        return FIXED[kind]()
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        output = CliOutput(nowhere, nowhere)
        try:
            settings = load_settings(global_values, output)
            settings = settings._replace(timeout_ms=min(settings.timeout_ms, LIMIT_MS))
            with open_session(CommandCall((), {}, settings, output)) as session:
                if kind == "revisions":
                    return _revisions(session)
                if kind == "masks":
                    masks = [NAMES[part][0] for part in ("workloads", "configs", "agents", "devices")]
                    return possible_masks(session.complete_state(*masks, "workloadStates"))
                return names_of(kind, session.complete_state(NAMES[kind][0]))
        except AnkaiosError:
            return ()


def _revisions(session: Session) -> list[str]:
    """The newest first."""
    request = base.Request(historyRequest=base.HistoryRequest(limit=20))
    response = session.request_addition(request).historyResponse
    return [str(revision.number) for revision in reversed(response.revisions)]


def names_of(kind: str, state: base.CompleteState) -> list[str]:
    return sorted(NAMES[kind][1](state))


def possible_masks(state: base.CompleteState) -> list[str]:
    masks = ["desiredState", "desiredState.workloads", "desiredState.configs", "workloadStates", "agents"]
    masks += [f"desiredState.workloads.{name}" for name in names_of("workloads", state)]
    masks += [f"desiredState.configs.{name}" for name in names_of("configs", state)]
    for agent, of_agent in sorted(state.workloadStates.agentStateMap.items()):
        masks += [f"workloadStates.{agent}", *(f"workloadStates.{agent}.{n}" for n in sorted(of_agent.wlNameStateMap))]
    for agent in names_of("agents", state):
        masks += [f"agents.{agent}", f"agents.{agent}.status", f"agents.{agent}.tags"]
    masks += [f"deviceInstances.{name}" for name in names_of("devices", state)]
    return masks
