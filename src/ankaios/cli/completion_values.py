"""Names that only the server knows, for completion: asked for with a short patience and without a word of complaint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ankaios.cli.connection import Session
    from ankaios.common.pb import ank_base_pb2 as base

PATIENCE_MS = 1000

_STATES = (
    "Running(Ok)",
    "Pending(Initial)",
    "Pending(WaitingToStart)",
    "Pending(Starting)",
    "Pending(StartingFailed)",
    "Succeeded(Ok)",
    "Failed(ExecFailed)",
    "Failed(Unknown)",
    "Failed(Lost)",
    "Stopping(Stopping)",
    "Stopping(WaitingToStop)",
    "Stopping(RequestedAtRuntime)",
    "Stopping(DeleteFailed)",
    "NotScheduled",
    "AgentDisconnected",
)


def _runtime_names() -> Iterable[str]:
    from ankaios.runtimes.registry import RUNTIME_NAMES

    return RUNTIME_NAMES


_FIXED: dict[str, Callable[[], Iterable[str]]] = {"runtimes": _runtime_names, "states": lambda: _STATES}
_MASKS = {
    "workloads": ("desiredState.workloads.*.agent",),
    "configs": ("desiredState.configs",),
    "agents": ("agents",),
    "devices": ("deviceInstances",),
    "masks": ("desiredState.workloads.*.agent", "desiredState.configs", "workloadStates", "agents", "deviceInstances"),
}


def known_values(kind: str, global_values: dict[str, Any]) -> Iterable[str]:
    return _FIXED[kind]() if kind in _FIXED else _asked_for(kind, global_values)


def _asked_for(kind: str, global_values: dict[str, Any]) -> Iterable[str]:
    import os

    from ankaios.cli.arguments import Call
    from ankaios.cli.connection import CommandFailed, run_session
    from ankaios.cli.output import Output
    from ankaios.cli.settings import load_settings
    from ankaios.common.errors import AnkaiosError

    found: list[str] = []

    def action(session: Session) -> None:
        found.extend(values_of(kind, session.complete_state(*_MASKS[kind])))

    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        call = Call((), {}, global_values)
        call.output = Output(nowhere, nowhere)
        try:
            call.settings = load_settings(global_values, call.output)
            call.settings.timeout_ms = min(call.settings.timeout_ms, PATIENCE_MS)
            run_session(call, action)
        except (CommandFailed, AnkaiosError):
            return ()
    return found


def values_of(kind: str, state: base.CompleteState) -> list[str]:
    workloads = sorted(state.desiredState.workloads.workloads)
    configs = sorted(state.desiredState.configs.configs)
    agents = sorted(state.agents.agents)
    devices = sorted(state.deviceInstances.deviceInstances)
    match kind:
        case "workloads":
            return workloads
        case "configs":
            return configs
        case "agents":
            return agents
        case "devices":
            return devices
    masks = ["desiredState", "desiredState.workloads", "desiredState.configs", "workloadStates", "agents"]
    masks += [f"desiredState.workloads.{name}" for name in workloads]
    masks += [f"desiredState.configs.{name}" for name in configs]
    for agent, of_agent in sorted(state.workloadStates.agentStateMap.items()):
        masks += [f"workloadStates.{agent}", *(f"workloadStates.{agent}.{n}" for n in sorted(of_agent.wlNameStateMap))]
    for agent in agents:
        masks += [f"agents.{agent}", f"agents.{agent}.status", f"agents.{agent}.tags"]
    masks += [f"deviceInstances.{name}" for name in devices]
    return masks
