"""What a workload waits for before it can start or stop: dependencies, dependents, its agent, a runtime, or devices.

Input: the desired workload, and the facts of the cluster. Output: `WaitingReason`s. Plans and causes use the same
functions, so that a plan announces what `ank why` explains later.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ankaios.common.dependency_conditions import blocks_stop, fulfils
from ankaios.common.execution_state import ExecutionState
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName
from ankaios.server.core.server_state import ServerState

_CONDITION_TEXTS = {
    "ADD_COND_RUNNING": "to run",
    "ADD_COND_HEALTHY": "to be healthy",
    "ADD_COND_SUCCEEDED": "to succeed",
    "ADD_COND_FAILED": "to fail",
}


class WaitingReason(Struct, frozen=True):
    """`kind` is the kind of a cause; `workload` is the other workload, if there is one."""

    kind: str
    text: str
    workload: str = ""

    def __str__(self) -> str:
        return self.text


class ClusterFacts(Struct, frozen=True):
    """What waiting depends on.

    `missing_devices` returns why an agent cannot give the workload its devices now, or "".
    """

    state: ServerState
    missing_devices: Callable[[InstanceName, Form], str]


def unmet_dependencies(dependencies: Mapping[str, str], facts: ClusterFacts) -> list[WaitingReason]:
    """Each dependency needs one instance, on any agent, that fulfils the condition."""
    reasons = []
    for name, condition in sorted(dependencies.items()):
        states = [state for _, state in facts.state.workload_states.of_workload(name)]
        if not any(fulfils(state, condition) for state in states):
            text = f"dependency '{name}' {_CONDITION_TEXTS[condition]}, {_currently(states)}"
            reasons.append(WaitingReason("dependency", text, name))
    return reasons


def _currently(states: Iterable[ExecutionState]) -> str:
    words = sorted({str(state) for state in states})
    return f"which is {' and '.join(words)}" if words else "which does not exist"


def blocking_dependents(dependents: Iterable[str], facts: ClusterFacts) -> list[WaitingReason]:
    """A workload is stopped after those that need it running."""
    reasons = []
    for name in dependents:
        states = [state for _, state in facts.state.workload_states.of_workload(name) if blocks_stop(state)]
        if states:
            text = f"dependent '{name}' to stop, {_currently(states)}"
            reasons.append(WaitingReason("dependency", text, name))
    return reasons


def agent_obstacles(name: InstanceName, form: Form, facts: ClusterFacts) -> list[WaitingReason]:
    """Why the agent cannot start the workload now, apart from dependencies."""
    if name.agent not in facts.state.agents:
        return [WaitingReason("agent", f"agent '{name.agent}', which is not connected")]
    reasons = []
    runtimes = facts.state.sessions.runtimes_of(name.agent)
    if runtimes is not None and form["runtime"] not in runtimes:
        enabled = ", ".join(sorted(runtimes)) or "none"
        text = f"runtime '{form['runtime']}', which agent '{name.agent}' does not enable (enabled: {enabled})"
        reasons.append(WaitingReason("runtime", text))
    if missing := facts.missing_devices(name, form):
        reasons.append(WaitingReason("device", f"devices: {missing}"))
    return reasons
