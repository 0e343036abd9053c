"""A cluster for tests: commands and faults without waiting, and assertions about what the cluster did.

Input: manifests, faults, and the time that passes. Output: states of workloads, and a timeline. Owns one simulated
cluster, which runs only while one of the methods is called. The same calls give the same result, always.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

from ankaios.common.execution_state import FAILED_EXEC_FAILED, SUCCEEDED_OK
from ankaios.common.execution_state_conversion import STATE_WORDS, SUB_STATE_WORDS
from ankaios.common.manifest import load_manifest
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import get_value
from ankaios.common.suggestions import did_you_mean
from ankaios.simulation.cluster import ClusterOptions, SimulatedCluster
from ankaios.simulation.determinism import seeded
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.isolation import InternalErrors, close, quiet
from ankaios.simulation.operator import Operator, Subscriber
from ankaios.simulation.runtime import SimulatedContainer
from ankaios.simulation.virtual_time import VirtualTimeLoop

RUNTIMES = ("podman", "podman-kube", "containerd", "native")
_STATE_DEPTH = 4  # workloadStates, agent, workload, id
_START = 1.0  # virtual seconds until server and agents are connected
_MIN_ADVANCE = 0.1  # virtual seconds; an answer of the server takes less
_SHOWN_LINES, _TIMELINE = 40, "Timeline:"

R = TypeVar("R")


def without_timeline(text: str) -> str:
    """The message of a failed check in one line, for output that contains the timeline anyway."""
    return ". ".join(text.partition(f"\n{_TIMELINE}")[0].splitlines())


class RejectedByServer(AssertionError):
    """The server did not accept the change; the text is the server's."""


class TestCluster:
    """`storage` is memory or sqlite: with a store, the state survives `kill_server`."""

    __test__ = False  # not a test class of pytest

    def __init__(self, *, storage: str = "memory", seed: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ank-test-", ignore_cleanup_errors=True)
        self._loop = VirtualTimeLoop()
        self._random = Random(seed)
        self._errors = InternalErrors()
        self._loop.set_exception_handler(self._errors.in_callback)
        options = ClusterOptions(nodes=(), storage=storage, runtimes=RUNTIMES)
        self._disks = SimulatedDisks(self._random)
        with self._seeded():
            folder = Path(self._folder.name) / "hosts"
            self._cluster = SimulatedCluster(self._loop, self._random, folder, options, self._disks)
        self._operator = Operator(self._cluster.server_urls)
        self._subscriber = Subscriber(self._cluster.server_urls, self._state_changed)
        self._following: asyncio.Task[None] | None = None
        self._changed_at = 0.0
        self._run(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self) -> None:
        self._cluster.start()
        self._following = asyncio.create_task(self._subscriber.run(), name="the subscriber")
        await asyncio.sleep(_START)

    def _seeded(self) -> AbstractContextManager[None]:
        return seeded(self._loop, self._random, others=self._disks.replaced())

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        with quiet(self._errors), self._seeded():
            return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._cluster.end()
        close(self._loop, Path(self._folder.name))
        self._folder.cleanup()

    # --- time ---

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._loop.now

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        __tracebackhide__ = True
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} s: time does not go back")
        self._run(asyncio.sleep(seconds))

    # --- changes ---

    def add_node(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Add a node and start its agent."""
        with self._seeded():
            self._cluster.add_node(name, tags)
        self.start(name)
        self.advance(_START)

    def apply(self, manifest: str | Path) -> None:
        """Apply a manifest: a path, or its text. Nodes that it names are added unless they exist.

        Raises `RejectedByServer`, with the reason.
        """
        __tracebackhide__ = True
        state = load_manifest(_manifest_text(manifest), "the manifest")
        for workload in state.get("workloads", {}).values():
            if (agent := workload.get("agent")) and "{{" not in agent and agent not in self._cluster.nodes:
                self.add_node(agent)
        masks = [
            f"desiredState.{section}.{name}"
            for section in ("workloads", "configs", "deviceConfigurations")
            for name in state.get(section, {})
        ]
        self._update({"desiredState": state}, masks)

    def delete(self, workload: str) -> None:
        __tracebackhide__ = True
        known = self.state("desiredState.workloads").get("desiredState", {}).get("workloads", {})
        if workload not in known:
            raise ValueError(did_you_mean("workload", workload, known))
        self._update({"desiredState": {"apiVersion": "v1", "workloads": {}}}, [f"desiredState.workloads.{workload}"])

    def _update(self, state: Mapping[str, Any], masks: list[str]) -> None:
        __tracebackhide__ = True
        self._changed_at = self.now
        update = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=masks)
        response = self._run(self._operator.request(base.Request(updateStateRequest=update)))
        if response is None:
            raise RejectedByServer("no server answered within 10 s")
        if response.HasField("error"):
            raise RejectedByServer(response.error.message)

    # --- faults ---

    def kill(self, node: str) -> None:
        """Cut the power of a node: its agent and its workloads end without a message."""
        __tracebackhide__ = True
        known = self._known(node)
        with self._seeded():
            self._cluster.power_off_node(known)

    def kill_agent(self, node: str) -> None:
        """End the agent of a node; its workloads continue."""
        __tracebackhide__ = True
        self._cluster.kill_agent(self._known(node))

    def start(self, node: str) -> None:
        """Start the agent of a node again."""
        __tracebackhide__ = True
        known = self._known(node)
        self._run(self._call(lambda: self._cluster.start_agent(known)))

    def kill_server(self) -> None:
        self._cluster.kill_server("server0")

    def start_server(self) -> None:
        self._run(self._call(lambda: self._cluster.start_server("server0")))

    def partition(self, node: str, other: str = "server0") -> None:
        """Nothing passes between two hosts until `heal`."""
        __tracebackhide__ = True
        self._cluster.network.block(self._known(node), other)

    def heal(self) -> None:
        self._run(self._call(self._cluster.network.unblock_all))

    def end_workload(self, workload: str, *, success: bool = False) -> None:
        """The container or process of a workload ends."""
        __tracebackhide__ = True
        node, container = self._container(workload)
        state = SUCCEEDED_OK if success else FAILED_EXEC_FAILED
        self._run(self._call(lambda: self._cluster.nodes[node].containers.end(container.id, state)))

    def fail_starts(self, node: str, rate: float = 1.0) -> None:
        """From now on, this share of the calls of the runtime fails; 0 ends it."""
        __tracebackhide__ = True
        self._cluster.nodes[self._known(node)].containers.faults.failure_rate = rate

    def plug(self, node: str, device: str, handler: str = "udev", **properties: str) -> None:
        """A device appears on a node, for the discovery handler of this name."""
        __tracebackhide__ = True
        devices = self._cluster.nodes[self._known(node)].handler
        self._run(self._call(lambda: devices.plug(handler, device, properties)))

    def unplug(self, node: str, device: str, handler: str = "udev") -> None:
        __tracebackhide__ = True
        devices = self._cluster.nodes[self._known(node)].handler
        if device not in (plugged := devices.plugged(handler)):
            raise ValueError(did_you_mean(f"device of handler '{handler}' on node '{node}'", device, plugged))
        self._run(self._call(lambda: devices.unplug(handler, device)))

    async def _call(self, work: Any) -> None:
        work()

    def _known(self, node: str) -> str:
        __tracebackhide__ = True
        if node not in self._cluster.nodes:
            raise ValueError(did_you_mean("node", node, self._cluster.nodes))
        return node

    def _container(self, workload: str) -> tuple[str, SimulatedContainer]:
        for name, node in self._cluster.nodes.items():
            for container in node.containers.running():
                if container.instance_name.workload == workload:
                    return name, container
        __tracebackhide__ = True
        raise ValueError(f"cannot end workload '{workload}': it runs on no node\n{self.last_lines}")

    # --- observations ---

    def workload(self, name: str) -> WorkloadUnderTest:
        return WorkloadUnderTest(self, name)

    def state(self, *masks: str) -> dict[str, Any]:
        """The complete state, or the parts that the masks select."""
        state = self._run(self._operator.read(*masks))
        if state is None:
            raise AssertionError("no server answered within 10 s")
        return state

    def running_on(self, workload: str) -> list[str]:
        """The nodes on which the workload really runs, independent of its reported state."""
        return [
            name
            for name, node in self._cluster.nodes.items()
            for container in node.containers.running()
            if container.instance_name.workload == workload
        ]

    @property
    def timeline(self) -> list[str]:
        """What happened, one line each, with virtual seconds."""
        return [str(happening) for happening in self._cluster.record]

    @property
    def last_lines(self) -> str:
        """The end of the timeline, for messages."""
        return "\n".join((_TIMELINE, *self.timeline[-_SHOWN_LINES:]))

    @property
    def has_time_passed(self) -> bool:
        """Whether time has passed since the last change of the desired state."""
        return self.now - self._changed_at >= _MIN_ADVANCE

    @property
    def internal_errors(self) -> list[str]:
        """What the programs logged as internal errors; each of them is a fault of the product."""
        return self._errors.texts

    def _state_changed(self, paths: list[tuple[str, ...]]) -> None:
        """Reports of workload states are part of the timeline. A path may be above or below a state."""
        copy = self._subscriber.copy
        for path in dict.fromkeys(path[:_STATE_DEPTH] for path in paths if path[0] == "workloadStates"):
            for (agent, workload), state in _states_below(path[1:], get_value(copy, path)):
                info = f": {state['additionalInfo']}" if state.get("additionalInfo") else ""
                self._cluster.note(agent, f"{workload} is {_state_text(state)}{info}")


def _manifest_text(manifest: str | Path) -> str:
    """A text of one line is a path, because a manifest has several."""
    if isinstance(manifest, str) and "\n" in manifest:
        return manifest
    try:
        return Path(manifest).read_text()
    except OSError as fault:
        __tracebackhide__ = True
        reason = fault.strerror or str(fault)
        raise ValueError(f"cannot read the manifest '{manifest}': {reason}; a text of one line is a path") from None


def _states_below(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The states in a part of the tree agent, workload, id."""
    if len(path) == _STATE_DEPTH - 1:
        yield (path[0], path[1]), value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _states_below((*path, name), part)


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
        return ", ".join(_state_text(state) for state in self.states.values())

    @property
    def reason(self) -> str:
        """Why it is in this state."""
        return ", ".join(filter(None, (state.get("additionalInfo", "") for state in self.states.values())))

    def should_be_running(self, on: str | None = None) -> None:
        """It runs exactly once, and is reported so by the node on which it runs."""
        __tracebackhide__ = True
        nodes = self._cluster.running_on(self.name)
        self._check(
            len(nodes) == 1 and on in (None, *nodes), f"runs on {nodes or 'no node'}", f"run on {on or 'one node'}"
        )
        reported = _state_text(self.states.get(nodes[0], {}))
        self._check(reported == "Running(Ok)", f"is reported as '{reported}'", "be reported as 'Running(Ok)'")

    def should_not_be_running(self) -> None:
        __tracebackhide__ = True
        nodes = self._cluster.running_on(self.name)
        self._check(not nodes, f"runs on {nodes}", "not run")

    def should_be(self, state: str) -> None:
        """It is reported with this state, such as `Pending(WaitingToStart)` or `Pending`."""
        __tracebackhide__ = True
        _check_words(state)
        reported = self.state
        holds = state in (reported, reported.partition("(")[0])
        reason = f" ({self.reason})" if self.reason else ""
        self._check(holds, f"is '{reported}'{reason}" if reported else "has no state", f"be '{state}'")

    def _check(self, holds: bool, found: str, expected: str) -> None:
        __tracebackhide__ = True
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
    __tracebackhide__ = True
    word, _, details = state.partition("(")
    if word not in STATE_WORDS:
        raise ValueError(did_you_mean("state", word, STATE_WORDS))
    if details and details.removesuffix(")") not in SUB_STATE_WORDS:
        raise ValueError(did_you_mean("substate", details.removesuffix(")"), SUB_STATE_WORDS))


def _state_text(state: Mapping[str, Any]) -> str:
    name, details = state.get("state", ""), state.get("subState", "")
    return name if details in ("", name) else f"{name}({details})"
