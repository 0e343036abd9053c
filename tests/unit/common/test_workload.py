import pytest

from ankaios.common.proto_conversion import added_workload_from_pb, deleted_workload_from_pb, deleted_workload_to_pb
from ankaios.common.workload import (
    AddCondition,
    ControlInterfaceAccess,
    DeleteCondition,
    DeletedWorkload,
    File,
    InstanceName,
    LogRule,
    ResourceRequest,
    StateRule,
    runtime_config_id,
)
from ankaios.common.workload import Operation as Op
from tests.support.builders import a_workload, added_workload_to_pb


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            "image: ghcr.io/eclipse-ankaios/tests/sleepy:latest",
            "f54d78fd9c57d2ec8ee16bb5571410d8370979784b2ae0dc7b645f01d9e2ee21",
        ),
        (
            'image: docker.io/nginx:latest\ncommandOptions: ["-p", "8081:80"]',
            "cc74dd34189ef3181a2f15c6c5f5b0e76aaefbcd55397e15314e7a25bad0864b",
        ),
        ("image: alpine:3", "6b1bdc92fc2d9fafe5e422c4a8862abc63aad7095bd8de46c4aafc92388fabe2"),
    ],
)
def test_the_id_is_the_hash_of_the_runtime_config(config: str, expected: str) -> None:
    """[utest->swdd~common-workload-execution-instance-naming~1]"""
    assert runtime_config_id(config) == expected
    assert str(InstanceName.of("web", "n1", config)) == f"web.{expected}.n1"


def test_the_id_depends_only_on_the_runtime_config() -> None:
    assert InstanceName.of("web", "n1", "x").id == InstanceName.of("db", "n2", "x").id


def test_a_workload_state_is_identified_by_name_agent_and_config_hash() -> None:
    """[utest->swdd~common-workload-state-identification~1]"""
    base = InstanceName.of("web", "n1", "x")
    others = {InstanceName.of("db", "n1", "x"), InstanceName.of("web", "n2", "x"), InstanceName.of("web", "n1", "y")}
    assert base == InstanceName.of("web", "n1", "x")
    assert len(others | {base}) == 4


def test_an_instance_name_is_read_from_its_text_which_has_three_parts() -> None:
    """[utest->swdd~common-workload-execution-instance-naming~1]"""
    name = InstanceName.of("web", "", "x")
    assert str(name).endswith(".")
    assert InstanceName.parse(str(name)) == name
    for wrong in ("web", "web.1", "web.1.a.b", "", "..", ".1.a", "/etc/..a", "web.1/x.a", "web.1.a/b", "we\nb.1.a"):
        assert InstanceName.parse(wrong) is None


def test_the_short_name_has_seven_characters_of_the_id() -> None:
    assert InstanceName("web", "0123456789", "n1").short == "web.0123456.n1"


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        (AddCondition.ADD_COND_RUNNING, 0),
        (AddCondition.ADD_COND_SUCCEEDED, 1),
        (AddCondition.ADD_COND_FAILED, 2),
        (AddCondition.ADD_COND_HEALTHY, 1000),
    ],
)
def test_a_dependency_keeps_its_add_condition_on_the_wire(condition: AddCondition, number: int) -> None:
    """[utest->swdd~workload-add-conditions-for-dependencies~1]"""
    spec = a_workload(dependencies={"db": condition})
    message = added_workload_to_pb(spec)
    assert dict(message.workload.dependencies.dependencies) == {"db": number}
    assert added_workload_from_pb(message).dependencies == {"db": condition}
    assert len(AddCondition) == 4


@pytest.mark.parametrize(
    ("condition", "number"),
    [(DeleteCondition.DEL_COND_RUNNING, 0), (DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING, 1)],
)
def test_a_deleted_workload_keeps_its_delete_conditions_on_the_wire(condition: DeleteCondition, number: int) -> None:
    """[utest->swdd~workload-delete-conditions-for-dependencies~1]"""
    deleted = DeletedWorkload(InstanceName.of("db", "n1", "x"), {"web": condition})
    message = deleted_workload_to_pb(deleted)
    assert dict(message.dependencies) == {"web": number}
    assert deleted_workload_from_pb(message) == deleted
    assert len(DeleteCondition) == 2


def test_only_allow_rules_require_a_control_interface() -> None:
    """[utest->swdd~common-workload-needs-control-interface~1]"""
    allow, deny = StateRule(Op.READ, ("*",)), LogRule(("*",))
    assert a_workload(access=ControlInterfaceAccess(allow=(allow,))).needs_control_interface
    assert not a_workload(access=ControlInterfaceAccess(deny=(deny,))).needs_control_interface
    assert not a_workload().needs_control_interface


def test_a_workload_has_files_if_at_least_one_is_assigned() -> None:
    """[utest->swdd~common-workload-has-files~1]"""
    assert a_workload(files=(File("/a", data="x"),)).has_files
    assert not a_workload().has_files


def test_workloads_are_equal_if_all_their_fields_are() -> None:
    """[utest->swdd~common-object-representation~1]"""
    assert a_workload(tags={"a": "b"}) == a_workload(tags={"a": "b"})
    assert a_workload(tags={"a": "b"}) != a_workload(tags={"a": "c"})
    assert a_workload().name == "web"


def test_a_resource_without_vendor_belongs_to_akri() -> None:
    assert ResourceRequest("cam", 1).resource == "akri.sh/cam"
    assert ResourceRequest("vendor.com/gpu", 1).resource == "vendor.com/gpu"
