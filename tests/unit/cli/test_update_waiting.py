"""The events after which the wait table is drawn."""

import io
from typing import Any, cast

from ankaios.cli.session import Session
from ankaios.cli.terminal.live_display import MANY_ROWS
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.updates.update import show_until_done
from ankaios.cli.updates.wait_list import WaitList
from ankaios.common.pb import ank_base_pb2 as base


class FakeSession:
    """Returns one state per call."""

    def __init__(self, names: list[str], early: list[str] | None = None) -> None:
        self._states = [running(name) for name in names]
        self._early = [running(name) for name in early or []]

    def kept_states(self) -> list[base.WorkloadState]:
        return self._early

    def next_states(self, limit: float) -> list[base.WorkloadState]:
        return [self._states.pop(0)]


def running(name: str) -> base.WorkloadState:
    instance = base.WorkloadInstanceName(workloadName=name, agentName="n1", id="1")
    return base.WorkloadState(instanceName=instance, executionState=base.ExecutionState(running=base.RUNNING_OK))


def tables(names: list[str], **early: Any) -> list[str]:
    output = CliOutput(stdout := io.StringIO(), io.StringIO(), {})
    wait_list = WaitList([f"{name}.1.n1" for name in names], [], {}, ["n1"])
    waited_for = [name for name in names if name not in early.get("early", [])]
    show_until_done(output, cast(Session, FakeSession(waited_for, **early)), wait_list, {})
    return stdout.getvalue().split("\n\n")[:-1]


def test_the_table_is_drawn_first_and_after_every_message() -> None:
    drawn = tables(["a", "b"])
    assert [table.count("Running(Ok)") for table in drawn] == [0, 1, 2]


def test_early_states_are_drawn_after_the_first_table() -> None:
    assert [table.count("Running(Ok)") for table in tables(["a"], early=["a"])] == [0, 1]


def test_a_large_table_is_drawn_at_the_steps_of_the_spinner_and_at_the_end() -> None:
    names = [f"w{number}" for number in range(MANY_ROWS + 1)]
    drawn = tables(names)
    assert len(drawn) < MANY_ROWS
    assert drawn[-1].count("Running(Ok)") == MANY_ROWS + 1
