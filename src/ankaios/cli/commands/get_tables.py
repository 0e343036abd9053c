"""`ank get agents`, `get configs`, `get devices`, `get resources` and `get servers`: one request, one table."""

from collections.abc import Callable, Sequence

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.terminal.table import print_table
from ankaios.cli.views.device_rows import DEVICES_HEADER, RESOURCES_HEADER, device_rows, resource_rows
from ankaios.common.pb import ank_base_pb2 as base

AGENTS_HEADER = ("NAME", "WORKLOADS", "CPU USAGE", "FREE MEMORY")
SERVERS_HEADER = ("NAME", "ROLE", "TERM", "URL", "VERSION", "STORAGE", "REVISION", "LAG")
CONFIGS_HEADER = ("CONFIG",)
Rows = list[tuple[str, ...]]


def get_agents(call: CommandCall) -> None:
    _print(call, "agents", ("agents", "workloadStates"), AGENTS_HEADER, agent_rows)


def get_configs(call: CommandCall) -> None:
    _print(call, "configs", ("desiredState.configs",), CONFIGS_HEADER, config_rows)


def get_devices(call: CommandCall) -> None:
    _print(call, "devices", ("deviceInstances",), DEVICES_HEADER, lambda state: device_rows(state.deviceInstances))


def get_resources(call: CommandCall) -> None:
    _print(call, "resources", ("agents",), RESOURCES_HEADER, lambda state: resource_rows(state.agents))


def get_servers(call: CommandCall) -> None:
    with open_session(call, "Failed to get servers") as session:
        response = session.request_addition(base.Request(serversRequest=base.ServersRequest()))
        session.goodbye()
    print_table(call.output, SERVERS_HEADER, server_rows(response.serversResponse))
    for server in response.serversResponse.servers:
        if server.problem:
            call.output.warn(f"server '{server.name}': {server.problem}")


def server_rows(response: base.ServersResponse) -> Rows:
    """Only the leader uses the storage."""
    return [
        (
            server.name,
            "leader" if server.leader else "standby",
            str(server.term) if server.term else "",
            server.url,
            server.version,
            server.storage,
            str(server.revision) if server.leader else "",
            "" if server.leader else f"{server.lagMs / 1000:.1f}s",
        )
        for server in response.servers
    ]


def _print(
    call: CommandCall,
    what: str,
    masks: Sequence[str],
    header: Sequence[str],
    rows: Callable[[base.CompleteState], Rows],
) -> None:
    with open_session(call, f"Failed to get {what}") as session:
        print_table(call.output, header, rows(session.complete_state(*masks)))


def config_rows(state: base.CompleteState) -> Rows:
    return [(key,) for key in sorted(state.desiredState.configs.configs)]


def agent_rows(state: base.CompleteState) -> Rows:
    counts = {
        agent: sum(len(ids.idStateMap) for ids in workloads.wlNameStateMap.values())
        for agent, workloads in state.workloadStates.agentStateMap.items()
    }
    rows: Rows = []
    for name, agent in sorted(state.agents.agents.items()):
        cpu = f"{agent.status.cpu_usage.cpu_usage}%" if agent.status.HasField("cpu_usage") else ""
        memory = f"{agent.status.free_memory.free_memory}B" if agent.status.HasField("free_memory") else ""
        rows.append((name, str(counts.get(name, 0)), cpu, memory))
    return rows
