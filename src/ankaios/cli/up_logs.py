"""The output of all workloads of `ank up --follow`, each line after the name of its workload.

A log campaign is started for every instance as soon as it runs, and again when it runs again. Owns one connection.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from ankaios.cli.output import CliOutput
from ankaios.cli.workload_rows import Instance, instance_name, instance_of, state_text, workload_instances
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.middleware.client import ServerConnection

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92")


async def follow_logs(connect: Callable[[], AbstractAsyncContextManager[ServerConnection]], output: CliOutput) -> None:
    """Print the output of all workloads until the task is cancelled."""
    async with connect() as connection:
        followed_logs = _FollowedLogs(output)
        first = base.Request(
            requestId="states", completeStateRequest=base.CompleteStateRequest(fieldMask=["workloadStates"])
        )
        await connection.send(grpc.ToServer(request=first))
        while True:
            for request in followed_logs.process(await connection.receive()):
                await connection.send(grpc.ToServer(request=request))


class _FollowedLogs:
    """Owns the followed instances and the colours of their names."""

    def __init__(self, output: CliOutput) -> None:
        self._output = output
        self._followed: set[Instance] = set()
        self._colours: dict[str, str] = {}

    def process(self, message: grpc.FromServer) -> list[base.Request]:
        """Print log entries. Returns the requests for log campaigns to start."""
        response = message.response
        if message.HasField("updateWorkloadState"):
            states = message.updateWorkloadState.workloadStates
            return self._follow((instance_of(state.instanceName), state.executionState) for state in states)
        if response.HasField("completeStateResponse"):
            return self._follow(workload_instances(response.completeStateResponse.completeState.workloadStates))
        for entry in response.logEntriesResponse.logEntries:
            self._output.line(f"{self._prefix(entry.workloadName.workloadName)} {entry.message}")
        if response.HasField("logsStopResponse"):
            self._followed.discard(instance_of(response.logsStopResponse.workloadName))
        return []

    def _follow(self, states: Iterable[tuple[Instance, base.ExecutionState]]) -> list[base.Request]:
        started = [
            instance
            for instance, state in states
            if state_text(state).startswith(("Running", "Succeeded", "Failed")) and instance not in self._followed
        ]
        self._followed.update(started)
        return [_logs_request(instance) for instance in started]

    def _prefix(self, name: str) -> str:
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        prefix = f"{name.ljust(max(map(len, self._colours)))} |"
        return f"\x1b[{colour}m{prefix}\x1b[39m" if self._output.is_terminal else prefix


def _logs_request(instance: Instance) -> base.Request:
    wanted = base.LogsRequest(workloadNames=[instance_name(instance)], follow=True)
    return base.Request(requestId=os.urandom(8).hex(), logsRequest=wanted)
