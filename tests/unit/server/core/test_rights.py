"""A workload cannot gain rights by what it writes through its control interface."""

from typing import Any

import pytest

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_manipulation import Form
from ankaios.server.core.replies import Effect
from tests.unit.server.scenario import Scenario, a_form, a_state, error_of, success_of


def rule(operation: str, *masks: str) -> Form:
    return {"type": "StateRule", "operation": operation, "filterMasks": list(masks)}


def access(*allow: Form, deny: tuple[Form, ...] = ()) -> Form:
    return {"allowRules": list(allow), **({"denyRules": list(deny)} if deny else {})}


WRITER = access(rule("ReadWrite", "desiredState.workloads"), rule("Read", "desiredState.configs.public"))


def a_scenario(writer: Form = WRITER) -> Scenario:
    scenario = Scenario()
    scenario.hello("n1")
    state = a_state({"writer": a_form(controlInterfaceAccess=writer), "other": a_form()})
    state["desiredState"]["configs"] = {"public": "1", "secret": "2"}
    scenario.update(state)
    return scenario


def write(scenario: Scenario, desired: Form, *masks: str, requester: str = "n1@writer@1") -> list[Effect]:
    new_state = COMPLETE_STATE.from_form({"desiredState": {"apiVersion": "v1", **desired}})
    content = base.UpdateStateRequest(newState=new_state, updateMask=masks)
    return scenario.ask_through("n1", requester, updateStateRequest=content)


def write_workload(scenario: Scenario, **fields: Any) -> list[Effect]:
    return write(scenario, {"workloads": {"new": a_form(**fields)}}, "desiredState.workloads.new")


@pytest.mark.parametrize(
    ("granted", "excess"),
    [
        (access(rule("ReadWrite", "*")), "read '*'"),
        (access(rule("Write", "desiredState.configs")), "write 'desiredState.configs'"),
        (access({"type": "LogRule", "workloadNames": ["*"]}), "logs of '*'"),
    ],
)
def test_access_rules_of_a_written_workload_cannot_exceed_those_of_the_writer(granted: Form, excess: str) -> None:
    scenario = a_scenario()
    text = error_of(write_workload(scenario, controlInterfaceAccess=granted))
    assert "workload 'writer' cannot give workload 'new' the right to " + excess in text
    assert "new" not in scenario.get("desiredState.workloads")["desiredState"]["workloads"]


def test_a_workload_can_pass_on_the_rights_that_it_has() -> None:
    granted = access(rule("Read", "desiredState.workloads.other"))
    assert success_of(write_workload(a_scenario(), controlInterfaceAccess=granted))[0]


def test_a_workload_with_more_rights_cannot_be_changed_by_one_with_fewer() -> None:
    """Otherwise the writer could replace what the other one runs and act with its rights."""
    scenario = a_scenario()
    powerful = a_form(controlInterfaceAccess=access(rule("ReadWrite", "*")))
    scenario.update(
        {"desiredState": {"apiVersion": "v1", "workloads": {"admin": powerful}}}, "desiredState.workloads.admin"
    )
    changed = write(
        scenario,
        {"workloads": {"admin": {"runtimeConfig": "image: evil"}}},
        "desiredState.workloads.admin.runtimeConfig",
    )
    assert "cannot give workload 'admin'" in error_of(changed)


def test_a_config_that_the_writer_may_not_read_cannot_be_referenced() -> None:
    text = error_of(write_workload(a_scenario(), configs={"c": "secret"}))
    assert "cannot reference the config 'secret' in workload 'new'" in text
    assert success_of(write_workload(a_scenario(), configs={"c": "public"}))[0]


def test_a_denied_config_cannot_be_referenced_although_all_configs_are_allowed() -> None:
    writer = access(rule("ReadWrite", "desiredState"), deny=(rule("Read", "desiredState.configs.secret"),))
    assert "'secret'" in error_of(write_workload(a_scenario(writer), configs={"c": "secret"}))


def test_the_broker_of_a_device_configuration_is_checked_like_a_workload() -> None:
    writer = access(rule("ReadWrite", "desiredState.deviceConfigurations"))
    workload = a_form(controlInterfaceAccess=access(rule("Read", "*")))
    workload.pop("agent")
    broker = {"strategy": "perNode", "workload": workload}
    configuration = {"discoveryHandler": {"name": "debugEcho"}, "capacity": 1, "broker": broker}
    desired = {"deviceConfigurations": {"camera": configuration}}
    text = error_of(write(a_scenario(writer), desired, "desiredState.deviceConfigurations.camera"))
    assert "the broker of device configuration 'camera'" in text


def test_an_unknown_workload_can_grant_no_rights() -> None:
    granted = a_form(controlInterfaceAccess=access(rule("Read", "desiredState")))
    done = write(a_scenario(), {"workloads": {"new": granted}}, "desiredState.workloads.new", requester="n1@gone@1")
    assert "Access denied" in error_of(done)


def test_the_command_line_is_not_limited() -> None:
    state = a_state({"new": a_form(controlInterfaceAccess=access(rule("ReadWrite", "*")))})
    assert success_of(a_scenario().update(state, "desiredState.workloads.new"))[0]


def test_an_agent_cannot_write_for_itself() -> None:
    done = write(a_scenario(), {"workloads": {"new": a_form()}}, "desiredState.workloads.new", requester="n1@1")
    assert "Access denied" in error_of(done)
