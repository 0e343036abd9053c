"""One workload of a cluster for tests, with assertions whose messages contain the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ankaios.common.execution_state_conversion import STATE_WORDS, SUB_STATE_WORDS
from ankaios.common.suggestions import did_you_mean

if TYPE_CHECKING:
    from ankaios.testing.cluster import TestCluster

__tracebackhide__ = True  # a failed assertion points at the line of the test, not at this module


class WorkloadUnderTest:
    """One workload, with assertions whose messages contain the timeline."""

    def __init__(self, cluster: TestCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """The reported execution states by agent; an agent without the workload is left out."""
        found = self._cluster.state("workloadStates").get("workloadStates", {})
        return {agent: state for agent, workloads in found.items() for state in workloads.get(self.name, {}).values()}

    @property
    def state(self) -> str:
        """The reported state, such as `Running(Ok)`; empty if there is none."""
        return ", ".join(reported_state_text(state) for state in self.states.values())

    @property
    def reason(self) -> str:
        """Why it is in this state."""
        return ", ".join(filter(None, (state.get("additionalInfo", "") for state in self.states.values())))

    def should_be_running(self, on: str | None = None) -> None:
        """It runs exactly once, and is reported so by the node on which it runs."""
        nodes = self._cluster.running_on(self.name)
        self._check(
            len(nodes) == 1 and on in (None, *nodes), f"runs on {nodes or 'no node'}", f"run on {on or 'one node'}"
        )
        reported = reported_state_text(self.states.get(nodes[0], {}))
        self._check(reported == "Running(Ok)", f"is reported as '{reported}'", "be reported as 'Running(Ok)'")

    def should_not_be_running(self) -> None:
        nodes = self._cluster.running_on(self.name)
        self._check(not nodes, f"runs on {nodes}", "not run")

    def should_be(self, state: str) -> None:
        """It is reported with this state, such as `Pending(WaitingToStart)` or `Pending`."""
        _check_words(state)
        reported = self.state
        holds = state in (reported, reported.partition("(")[0])
        reason = f" ({self.reason})" if self.reason else ""
        self._check(holds, f"is '{reported}'{reason}" if reported else "has no state", f"be '{state}'")

    def _check(self, holds: bool, found: str, expected: str) -> None:
        if not holds:
            text = f"workload '{self.name}' {found}; it should {expected}"
            raise AssertionError("\n".join(filter(None, (text, self._hint(), self._cluster.last_lines))))

    def _hint(self) -> str:
        """What is probably wrong in the test."""
        state = self._cluster.state("desiredState.workloads", "workloadStates")
        known = {*state.get("desiredState", {}).get("workloads", {})}
        known |= {name for workloads in state.get("workloadStates", {}).values() for name in workloads}
        if self.name not in known:
            return f"Note: {did_you_mean('workload', self.name, known)}"
        if not self._cluster.has_time_passed:
            return "Note: no time has passed since the last change; let it pass with cluster.advance(seconds)"
        return ""


def _check_words(state: str) -> None:
    """A word that is no state would make a test fail for the wrong reason."""
    word, _, details = state.partition("(")
    if word not in STATE_WORDS:
        raise ValueError(did_you_mean("state", word, STATE_WORDS))
    if details and details.removesuffix(")") not in SUB_STATE_WORDS:
        raise ValueError(did_you_mean("substate", details.removesuffix(")"), SUB_STATE_WORDS))


def reported_state_text(state: Mapping[str, Any]) -> str:
    name, details = state.get("state", ""), state.get("subState", "")
    return name if details in ("", name) else f"{name}({details})"
