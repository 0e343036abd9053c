"""Names that only the server knows, for completion: asked for with a short patience and without a word of complaint."""

from __future__ import annotations

import os
from pathlib import Path

from ankaios.cli.arguments import Call
from ankaios.cli.connection import CommandFailed, Session, run_session
from ankaios.cli.output import Output
from ankaios.cli.settings import load_settings
from ankaios.common.errors import AnkaiosError
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.runtimes.registry import RUNTIME_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PATIENCE_MS = 1000

_FIXED = {
    "runtimes": RUNTIME_NAMES,
    "states": (
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
    ),
}
_MASKS = {
    "workloads": ("desiredState.workloads.*.agent",),
    "configs": ("desiredState.configs",),
    "agents": ("agents",),
    "devices": ("deviceInstances",),
    "masks": ("desiredState.workloads.*.agent", "desiredState.configs", "workloadStates", "agents", "deviceInstances"),
}


def known_values(kind: str, global_values: dict[str, Any]) -> Iterable[str]:
    if kind in _FIXED:
        return _FIXED[kind]
    found: list[str] = []

    async def action(session: Session) -> None:
        found.extend(values_of(kind, await session.complete_state(*_MASKS[kind])))

    with Path(os.devnull).open("w") as nowhere:
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
