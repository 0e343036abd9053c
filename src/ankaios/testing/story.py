"""A story: steps for a simulated cluster, read from YAML. `ank simulate` runs it and prints the timeline.

Input: a list of steps, each a map with one key. Output: calls of `TestCluster`, or `StoryFailed` with the step that
failed. Unknown steps and wrong values are rejected before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ankaios.common.errors import Rejected
from ankaios.testing.cluster import TestCluster, without_timeline


class StoryFailed(Rejected):
    """An expectation was not met, or a step cannot be done."""


Step = Callable[[TestCluster, Any], None]


def _expect(cluster: TestCluster, wanted: Mapping[str, str]) -> None:
    for workload, state in wanted.items():
        if state == "Running":
            cluster.workload(workload).should_be_running()
        else:
            cluster.workload(workload).should_be(state)


def _add_node(cluster: TestCluster, value: str | Mapping[str, Mapping[str, str]]) -> None:
    nodes = {value: {}} if isinstance(value, str) else value
    for name, tags in nodes.items():
        cluster.add_node(name, tags or {})


def _device(value: str) -> tuple[str, str, str]:
    """`<node>/<device>`, or `<node>/<handler>/<device>`."""
    parts = value.split("/")
    return (parts[0], parts[-1], parts[1] if len(parts) > 2 else "udev")


STEPS: Mapping[str, tuple[type | tuple[type, ...], str, Step]] = {
    "advance": ((int, float), "seconds that pass", TestCluster.advance),
    "node": ((str, dict), "adds a node, with tags if it is a map", _add_node),
    "apply": (str, "applies another manifest", lambda cluster, value: cluster.apply(Path(value))),
    "delete": (str, "deletes a workload", TestCluster.delete),
    "kill": (str, "cuts the power of a node", TestCluster.kill),
    "killAgent": (str, "ends the agent of a node", TestCluster.kill_agent),
    "start": (str, "starts a node again", TestCluster.start),
    "partition": (str, "separates a node from the server", TestCluster.partition),
    "heal": ((bool, type(None)), "ends all partitions", lambda cluster, value: cluster.heal()),
    "fail": (str, "ends the process of a workload", TestCluster.end_workload),
    "succeed": (
        str,
        "ends the process of a workload with success",
        lambda cluster, value: cluster.end_workload(value, success=True),
    ),
    "failStarts": (str, "lets all calls of a node's runtime fail", TestCluster.fail_starts),
    "allowStarts": (str, "ends failStarts", lambda cluster, value: cluster.fail_starts(value, 0)),
    "plug": (str, "<node>/<device>: a device appears", lambda cluster, value: cluster.plug(*_device(value))),
    "unplug": (str, "<node>/<device>: a device is gone", lambda cluster, value: cluster.unplug(*_device(value))),
    "expect": (dict, "workloads and their states, such as web: Running", _expect),
}


def check_steps(steps: Any) -> Sequence[tuple[str, Any]]:
    """Raises `StoryFailed` for what is not a list of known steps."""
    if not isinstance(steps, list):
        raise StoryFailed("a story is a list of steps, each with one key, such as '- advance: 10'")
    checked = []
    for number, step in enumerate(steps, 1):
        if not isinstance(step, dict) or len(step) != 1:
            raise StoryFailed(f"step {number} is not a map with one key: {step!r}")
        ((name, value),) = step.items()
        if name not in STEPS:
            raise StoryFailed(f"step {number}: unknown step '{name}'; known are {', '.join(STEPS)}")
        kinds, meaning, _ = STEPS[name]
        if not isinstance(value, kinds):
            raise StoryFailed(f"step {number}: '{name}' ({meaning}) cannot have the value {value!r}")
        checked.append((name, value))
    return checked


def run_story(cluster: TestCluster, steps: Sequence[tuple[str, Any]]) -> None:
    for number, (name, value) in enumerate(steps, 1):
        try:
            STEPS[name][2](cluster, value)
        except (AssertionError, ValueError, OSError, Rejected) as error:
            raise StoryFailed(f"step {number}, '{name}: {value}': {without_timeline(str(error))}") from error
