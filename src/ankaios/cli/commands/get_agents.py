"""`ank get agents`: the connected agents, how many workloads they have, and their load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.failures import told_as
from ankaios.cli.plain_table import print_table

if TYPE_CHECKING:
    from ankaios.common.pb import ank_base_pb2 as base

HEADER = ("NAME", "WORKLOADS", "CPU USAGE", "FREE MEMORY")


def run(call: Call) -> int:
    def action(session: Session) -> None:
        print_table(call.output, HEADER, agent_rows(session.complete_state("agents", "workloadStates")))

    with told_as("Failed to get agents"):
        run_session(call, action)
    return 0


def agent_rows(state: base.CompleteState) -> list[tuple[str, ...]]:
    counts = {
        agent: sum(len(ids.idStateMap) for ids in workloads.wlNameStateMap.values())
        for agent, workloads in state.workloadStates.agentStateMap.items()
    }
    rows: list[tuple[str, ...]] = []
    for name, agent in sorted(state.agents.agents.items()):
        cpu = f"{agent.status.cpu_usage.cpu_usage}%" if agent.status.HasField("cpu_usage") else ""
        memory = f"{agent.status.free_memory.free_memory}B" if agent.status.HasField("free_memory") else ""
        rows.append((name, str(counts.get(name, 0)), cpu, memory))
    return rows
