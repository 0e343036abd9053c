"""Names to instances, and lines."""

import pytest

from ankaios.cli.connection import CommandFailed
from ankaios.cli.log_view import NoLogs, check_accepted, lines_of, resolve
from ankaios.common.pb import ank_base_pb2 as base

STATES = base.WorkloadStatesMap()
for agent, name, instance_id in (("n1", "web", "2"), ("n1", "web", "1"), ("n2", "web", "1"), ("n1", "db", "5")):
    STATES.agentStateMap[agent].wlNameStateMap[name].idStateMap[instance_id].running = base.RUNNING_OK

WEB = base.WorkloadInstanceName(workloadName="web", agentName="n1", id="1")


def test_a_name_means_all_its_instances_once() -> None:
    assert resolve(["web", "db", "web"], STATES) == [
        ("web", "1", "n1"),
        ("web", "1", "n2"),
        ("web", "2", "n1"),
        ("db", "5", "n1"),
    ]


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(NoLogs, match=r"^Workload name 'wep' does not exist\.$") as caught:
        resolve(["web", "wep"], STATES)
    assert caught.value.hint == "there is no workload 'wep', did you mean 'web'?"


def test_every_instance_must_be_accepted() -> None:
    response = base.Response(logsRequestAccepted=base.LogsRequestAccepted(workloadNames=[WEB]))
    check_accepted([("web", "1", "n1")], response)
    with pytest.raises(CommandFailed, match=r"Workload 'web' is not accepted by the server to receive logs from."):
        check_accepted([("web", "1", "n1"), ("web", "2", "n1")], response)
    with pytest.raises(CommandFailed, match=r"^no$"):
        check_accepted([], base.Response(error=base.Error(message="no")))


def test_lines_carry_the_name_if_asked_for() -> None:
    entries = [base.LogEntry(workloadName=WEB, message="a"), base.LogEntry(workloadName=WEB, message="")]
    assert lines_of(entries, with_names=False) == "a\n\n"
    assert lines_of(entries, with_names=True) == "web a\nweb \n"
