"""The output of all workloads as it comes, each line behind the name of its workload.

A campaign is started for every instance as soon as it runs, and again when it runs again. Owns one connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ankaios.cli.output import Output
from ankaios.cli.workload_rows import Instance, instance_of, instances_of, state_text
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.middleware.client import ServerConnection

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92")


async def follow_logs(connect: Callable[[], AbstractAsyncContextManager[ServerConnection]], output: Output) -> None:
    """Until cancelled."""
    async with connect() as connection:
        view = _View(output)
        first = base.Request(
            requestId="states", completeStateRequest=base.CompleteStateRequest(fieldMask=["workloadStates"])
        )
        await connection.send(grpc.ToServer(request=first))
        while True:
            for request in view.take(await connection.receive()):
                await connection.send(grpc.ToServer(request=request))


class _View:
    """Which instances are followed, and how their names look."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._followed: set[Instance] = set()
        self._names: dict[str, str] = {}

    def take(self, message: grpc.FromServer) -> list[base.Request]:
        """Print what is to be printed; returns the campaigns to start."""
        response = message.response
        if message.HasField("updateWorkloadState"):
            states = message.updateWorkloadState.workloadStates
            return self._follow([(instance_of(state.instanceName), state.executionState) for state in states])
        if response.HasField("completeStateResponse"):
            return self._follow(list(instances_of(response.completeStateResponse.completeState.workloadStates)))
        if response.HasField("logEntriesResponse"):
            for entry in response.logEntriesResponse.logEntries:
                self._output.line(f"{self._prefix(entry.workloadName.workloadName)} {entry.message}")
        if response.HasField("logsStopResponse"):
            self._followed.discard(instance_of(response.logsStopResponse.workloadName))
        return []

    def _follow(self, states: list[tuple[Instance, base.ExecutionState]]) -> list[base.Request]:
        fresh = [
            instance
            for instance, state in states
            if state_text(state).startswith(("Running", "Succeeded", "Failed")) and instance not in self._followed
        ]
        self._followed.update(fresh)
        return [_campaign(instance) for instance in fresh]

    def _prefix(self, name: str) -> str:
        colour = self._names.setdefault(name, _COLOURS[len(self._names) % len(_COLOURS)])
        width = max(map(len, self._names))
        if not self._output.is_terminal:
            return f"{name.ljust(width)} |"
        return f"\x1b[{colour}m{name.ljust(width)} |\x1b[39m"


def _campaign(instance: Instance) -> base.Request:
    name, instance_id, agent = instance
    wanted = base.WorkloadInstanceName(workloadName=name, agentName=agent, id=instance_id)
    return base.Request(
        requestId=os.urandom(8).hex(), logsRequest=base.LogsRequest(workloadNames=[wanted], follow=True)
    )
