"""The instances of a name, and the printed lines."""

import pytest

from ankaios.cli.commands.logs import NoLogs, check_accepted, log_lines, not_started, resolve
from ankaios.cli.session import RequestFailed
from ankaios.cli.views.workload_rows import workload_instances
from ankaios.common.pb import ank_base_pb2 as base

_MAP = base.WorkloadStatesMap()
for agent, name, instance_id in (("n1", "web", "2"), ("n1", "web", "1"), ("n2", "web", "1"), ("n1", "db", "5")):
    _MAP.agentStateMap[agent].wlNameStateMap[name].idStateMap[instance_id].running = base.RUNNING_OK

STATES = dict(workload_instances(_MAP))
WEB = base.WorkloadInstanceName(workloadName="web", agentName="n1", id="1")


def test_a_name_means_all_its_instances_once() -> None:
    assert resolve(["web", "db", "web"], STATES) == [
        ("web", "1", "n1"),
        ("web", "1", "n2"),
        ("web", "2", "n1"),
        ("db", "5", "n1"),
    ]


def test_an_unknown_name_is_reported_with_a_similar_one() -> None:
    with pytest.raises(NoLogs, match=r"^Workload name 'wep' does not exist\.$") as caught:
        resolve(["web", "wep"], STATES)
    assert caught.value.hint == "unknown workload 'wep'; did you mean 'web'?"


def test_every_instance_must_be_accepted() -> None:
    response = base.Response(logsRequestAccepted=base.LogsRequestAccepted(workloadNames=[WEB]))
    check_accepted([("web", "1", "n1")], response)
    with pytest.raises(RequestFailed, match=r"Workload 'web' is not accepted by the server to receive logs from."):
        check_accepted([("web", "1", "n1"), ("web", "2", "n1")], response)
    with pytest.raises(RequestFailed, match=r"^no$"):
        check_accepted([], base.Response(error=base.Error(message="no")))


def test_lines_begin_with_the_name_if_requested() -> None:
    entries = [base.LogEntry(workloadName=WEB, message="a"), base.LogEntry(workloadName=WEB, message="")]
    assert log_lines(entries, with_names=False) == "a\n\n"
    assert log_lines(entries, with_names=True) == "web a\nweb \n"


def test_only_an_instance_that_has_not_started_gets_a_hint() -> None:
    failed = base.ExecutionState(pending=base.PENDING_STARTING_FAILED, additionalInfo="no image")
    assert not_started(("web", "1", "n1"), failed) == (
        "workload 'web' has no output because it has not started; it is Pending(StartingFailed): no image"
    )
    waiting = base.ExecutionState(pending=base.PENDING_WAITING_TO_START)
    assert not_started(("web", "1", "n1"), waiting).endswith("it is Pending(WaitingToStart)")
    for state in (base.ExecutionState(running=base.RUNNING_OK), base.ExecutionState(failed=base.FAILED_LOST)):
        assert not_started(("web", "1", "n1"), state) == ""
