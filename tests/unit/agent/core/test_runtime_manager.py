"""Plans from assigned and existing workloads."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from ankaios.agent.core.operations import CreateOperation, DeleteOperation, UpdateOperation
from ankaios.agent.core.runtime_manager import Found, Plan, ResumeOperation, RuntimeManager
from ankaios.common.execution_state import PENDING_STARTING, RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.common.workload import DeleteCondition, DeletedWorkload, InstanceName, RestartPolicy, WorkloadSpec
from tests.support.builders import a_workload

WEB = a_workload("web", "A")
WEB2 = a_workload("web", "A", config="image: two")
DB = a_workload("db", "A")
POD = a_workload("pod", "A", runtime="podman-kube")
ALIEN = a_workload("alien", "A", runtime="vm")


@dataclass
class Work:
    """A workload that has a task."""

    spec: WorkloadSpec
    target: WorkloadSpec | None = None
    owned: set[InstanceName] = field(default_factory=set)

    @property
    def current(self) -> InstanceName:
        return self.spec.instance_name

    def owns(self, name: InstanceName, runtime: str | None = None) -> bool:
        return name in self.owned | {self.current} and runtime in (None, self.spec.runtime)


def works_on(spec: WorkloadSpec) -> Work:
    return Work(spec, spec)


def gone(spec: WorkloadSpec) -> DeletedWorkload:
    return DeletedWorkload(spec.instance_name)


def a_manager() -> RuntimeManager:
    return RuntimeManager(("podman", "podman-kube"))


def found(spec: WorkloadSpec, state: ExecutionState = RUNNING_OK, runtime_id: str | None = "c1") -> Found:
    return Found(spec.runtime, spec.instance_name, state, runtime_id)


def after_hello(*wanted: WorkloadSpec) -> RuntimeManager:
    manager = a_manager()
    manager.server_hello(wanted, {}, {})
    return manager


def test_postponed_workloads_are_kept_if_a_listing_fails() -> None:
    """The runtime is listed again; otherwise running workloads would be deleted as unneeded."""

    def broken() -> Iterator[Found]:
        yield found(WEB)
        raise ValueError("a bug")

    manager = after_hello(WEB)
    with pytest.raises(ValueError, match="a bug"):
        manager.listed("podman", broken(), {}, {})
    assert manager.listed("podman", [found(WEB)], {}, {}) == Plan(resume=[ResumeOperation(WEB, "c1")])


def test_no_workload_is_started_before_its_runtime_is_listed() -> None:
    """[utest->swdd~agent-existing-workloads-finds-list~1]
    [utest->swdd~agent-initial-list-existing-workloads~1]
    [utest->swdd~agent-supports-multiple-runtime-connectors~1]
    """
    manager = a_manager()
    assert manager.server_hello([WEB, POD], {}, {}) == Plan()
    assert manager.unlisted() == ["podman", "podman-kube"]
    assert list(manager.held("podman")) == [WEB]
    assert manager.listed("podman", [], {}, {}) == Plan(operations=[CreateOperation(WEB)])
    assert manager.unlisted() == ["podman-kube"]
    assert manager.listed("podman-kube", [], {}, {}) == Plan(operations=[CreateOperation(POD)])


def test_a_workload_of_an_unknown_runtime_does_not_wait() -> None:
    """[utest->swdd~agent-skips-unknown-runtime~1]"""
    assert a_manager().server_hello([ALIEN], {}, {}) == Plan(operations=[CreateOperation(ALIEN)])


def test_only_workloads_that_are_not_found_are_created() -> None:
    """[utest->swdd~agent-existing-workloads-starts-new-if-not-found~1]"""
    plan = after_hello(WEB, DB).listed("podman", [found(WEB)], {}, {})
    assert plan == Plan(resume=[ResumeOperation(WEB, "c1")], operations=[CreateOperation(DB)])


def test_an_unchanged_running_workload_is_resumed() -> None:
    """[utest->swdd~agent-existing-workloads-resume-existing~1]"""
    plan = after_hello(WEB).listed("podman", [found(WEB, runtime_id=None)], {}, {})
    assert plan == Plan(resume=[ResumeOperation(WEB, None)])


def test_a_succeeded_workload_is_restarted_if_its_policy_requires_it() -> None:
    always = replace(WEB, restart_policy=RestartPolicy.ALWAYS)
    plan = after_hello(always).listed("podman", [found(WEB, SUCCEEDED_OK)], {}, {})
    assert plan == Plan(operations=[CreateOperation(always, "c1")])
    plan = after_hello(always).listed("podman", [item := found(WEB, SUCCEEDED_OK, None)], {}, {})
    assert plan == Plan(replace=[item], operations=[UpdateOperation(always, gone(WEB))])


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (RestartPolicy.NEVER, SUCCEEDED_OK),
        (RestartPolicy.NEVER, exited(3)),
        (RestartPolicy.ON_FAILURE, SUCCEEDED_OK),
    ],
)
def test_a_job_that_has_ended_is_not_run_again(policy: RestartPolicy, state: ExecutionState) -> None:
    job = replace(WEB, restart_policy=policy)
    for runtime_id in ("c1", None):
        plan = after_hello(job).listed("podman", [found(WEB, state, runtime_id)], {}, {})
        assert plan == Plan(resume=[ResumeOperation(job, runtime_id)])


def test_a_changed_or_failed_workload_is_replaced() -> None:
    """[utest->swdd~agent-existing-workloads-replace-updated~1]"""
    failing = replace(WEB, restart_policy=RestartPolicy.ON_FAILURE)
    for item, wanted in ((found(WEB), WEB2), (found(WEB, exited(1)), failing), (found(WEB, PENDING_STARTING), WEB)):
        plan = after_hello(wanted).listed("podman", [item], {}, {})
        assert plan == Plan(replace=[item], operations=[UpdateOperation(wanted, gone(WEB))])


def test_an_unneeded_workload_is_deleted() -> None:
    """[utest->swdd~agent-existing-workloads-delete-unneeded~1]"""
    assert after_hello(DB).listed("podman", [found(WEB)], {}, {}) == Plan(
        unneeded=[found(WEB)], operations=[CreateOperation(DB)]
    )


def test_the_same_name_in_another_runtime_is_not_the_same_workload() -> None:
    moved = a_workload("web", "A", runtime="podman-kube")
    manager = after_hello(moved)
    assert manager.listed("podman", [found(WEB)], {}, {}).unneeded == [found(WEB)]
    assert manager.listed("podman-kube", [], {}, {}).operations == [CreateOperation(moved)]
    assert manager.listed("podman", [found(WEB)], {"web": works_on(moved)}, {}).unneeded == [found(WEB)]


def test_the_full_instance_name_selects_one_of_two_containers() -> None:
    old, new = found(WEB, runtime_id="old"), found(WEB2, runtime_id="new")
    for order in ([old, new], [new, old]):
        plan = after_hello(WEB2).listed("podman", order, {}, {})
        assert plan == Plan(resume=[ResumeOperation(WEB2, "new")], unneeded=[old])


def test_of_two_outdated_containers_one_is_replaced_and_the_other_deleted() -> None:
    third = a_workload("web", "A", config="image: three")
    one, two = found(WEB, runtime_id="1"), found(WEB2, runtime_id="2")
    plan = after_hello(third).listed("podman", [one, two], {}, {})
    assert plan == Plan(replace=[one], unneeded=[two], operations=[UpdateOperation(third, gone(WEB))])


def test_containers_with_a_task_are_not_changed() -> None:
    manager = after_hello()
    work = works_on(WEB2)
    work.owned.add(WEB.instance_name)
    assert manager.listed("podman", [found(WEB), found(WEB2)], {"web": work}, {}) == Plan()


def test_a_finished_container_that_waits_for_its_restart_is_kept() -> None:
    waiting = {"web": CreateOperation(WEB, "c1")}
    manager = a_manager()
    manager.server_hello([WEB], {}, waiting)
    other = found(WEB, SUCCEEDED_OK, "c2")
    assert manager.listed("podman", [found(WEB, SUCCEEDED_OK), other], {}, waiting) == Plan(unneeded=[other])


def test_an_unchanged_workload_of_a_live_agent_is_kept() -> None:
    manager = a_manager()
    plan = manager.server_hello([WEB], {"web": works_on(WEB)}, {})
    assert plan == Plan(keep=["web"])
    assert list(manager.held("podman")) == []


def test_a_changed_workload_of_a_live_agent_is_updated() -> None:
    for changed in (WEB2, replace(WEB, tags={"a": "b"})):
        plan = a_manager().server_hello([changed], {"web": works_on(WEB)}, {})
        assert plan == Plan(operations=[UpdateOperation(changed, gone(WEB))])


def test_a_workload_that_is_no_longer_desired_is_deleted_or_no_longer_waits() -> None:
    """[utest->swdd~agent-existing-workloads-finds-list~1]
    [utest->swdd~agent-initial-list-existing-workloads~1]
    """
    manager = a_manager()
    plan = manager.server_hello([], {"web": works_on(WEB)}, {"db": CreateOperation(DB)})
    assert plan == Plan(drop=["db"], operations=[DeleteOperation(gone(WEB))])


def test_a_waiting_workload_is_evaluated_again_and_keeps_its_container() -> None:
    plan = a_manager().server_hello([DB, WEB2], {}, {"db": CreateOperation(DB, "c0"), "web": CreateOperation(WEB)})
    assert plan == Plan(operations=[CreateOperation(DB, "c0"), CreateOperation(WEB2)])


def test_a_successor_continues_to_wait_while_its_predecessor_stops() -> None:
    plan = a_manager().server_hello([WEB2], {"web": Work(WEB, None)}, {"web": CreateOperation(WEB2)})
    assert plan == Plan(operations=[CreateOperation(WEB2)])


def test_a_workload_that_is_being_deleted_and_desired_again_is_updated() -> None:
    plan = a_manager().server_hello([WEB], {"web": Work(WEB, None)}, {})
    assert plan == Plan(operations=[UpdateOperation(WEB, gone(WEB))])


def a_listed_manager() -> RuntimeManager:
    manager = after_hello()
    manager.listed("podman", [], {}, {})
    manager.listed("podman-kube", [], {}, {})
    return manager


def test_deleted_workloads_come_before_added_ones() -> None:
    """[utest->swdd~agent-handle-deleted-before-added-workloads~1]
    [utest->swdd~agent-deletes-workload~1]
    [utest->swdd~agent-added-creates-workload~1]
    """
    plan = a_listed_manager().update_workload([DB], [gone(WEB)], {"web": works_on(WEB)}, [])
    assert plan == Plan(operations=[DeleteOperation(gone(WEB)), CreateOperation(DB)])


def test_a_delete_and_an_add_are_an_update_with_the_conditions_of_the_delete() -> None:
    """[utest->swdd~agent-updates-deleted-and-added-workloads~1]"""
    deleted = DeletedWorkload(WEB.instance_name, {"ui": DeleteCondition.DEL_COND_RUNNING})
    plan = a_listed_manager().update_workload([WEB2], [deleted], {"web": works_on(WEB)}, [])
    assert plan == Plan(operations=[UpdateOperation(WEB2, deleted)])


def test_adding_a_known_workload_is_an_update_without_conditions() -> None:
    """[utest->swdd~agent-update-on-add-known-workload~1]"""
    plan = a_listed_manager().update_workload([WEB2], [], {"web": works_on(WEB)}, [])
    assert plan == Plan(operations=[UpdateOperation(WEB2, gone(WEB))])


def test_adding_a_workload_during_its_deletion_is_a_create_after_the_delete() -> None:
    plan = a_listed_manager().update_workload([WEB2], [], {"web": Work(WEB, None)}, [])
    assert plan == Plan(operations=[CreateOperation(WEB2)])


def test_a_name_that_is_deleted_twice_is_handled_once() -> None:
    plan = a_listed_manager().update_workload([WEB2], [gone(WEB), gone(WEB)], {"web": works_on(WEB)}, [])
    assert plan == Plan(operations=[UpdateOperation(WEB2, gone(WEB))])


def test_a_workload_added_while_its_runtime_is_listed_waits() -> None:
    manager = after_hello()
    assert manager.update_workload([WEB], [], {}, []) == Plan()
    assert manager.update_workload([DB], [], {}, ["db"]) == Plan(operations=[CreateOperation(DB)])
    assert manager.listed("podman", [found(WEB)], {}, {}) == Plan(resume=[ResumeOperation(WEB, "c1")])


def test_a_postponed_workload_that_is_deleted_is_removed_and_its_container_is_unneeded() -> None:
    manager = after_hello(WEB)
    assert manager.update_workload([], [gone(WEB)], {}, []) == Plan(removed=[WEB.instance_name])
    assert manager.listed("podman", [found(WEB)], {}, {}) == Plan(unneeded=[found(WEB)])


def test_a_postponed_workload_that_is_updated_stays_postponed() -> None:
    manager = after_hello(WEB)
    assert manager.update_workload([WEB2], [gone(WEB)], {}, []) == Plan(removed=[WEB.instance_name])
    item = found(WEB)
    assert manager.listed("podman", [item], {}, {}).replace == [item]
    tagged = replace(WEB, tags={"a": "b"})
    manager = after_hello(WEB)
    assert manager.update_workload([tagged], [gone(WEB)], {}, []) == Plan()
    assert manager.listed("podman", [], {}, {}) == Plan(operations=[CreateOperation(tagged)])


def test_a_new_hello_replaces_the_postponed_workloads() -> None:
    manager = after_hello(WEB)
    manager.server_hello([DB], {}, {})
    assert manager.listed("podman", [], {}, {}) == Plan(operations=[CreateOperation(DB)])


def test_stored_states_of_a_found_workload_never_restart_it() -> None:
    spec = found(WEB).as_spec()
    assert (spec.instance_name, spec.runtime, spec.restart_policy, spec.files) == (
        WEB.instance_name,
        "podman",
        RestartPolicy.NEVER,
        (),
    )


def test_after_a_loss_of_the_server_unlisted_workloads_are_kept() -> None:
    manager = a_manager()
    waiting = {"db": CreateOperation(DB)}
    assert manager.server_hello([], {"web": works_on(WEB)}, waiting, keep_unlisted=True) == Plan()
    assert manager.listed("podman", [found(WEB)], {}, {}) == Plan()
    manager.server_hello([], {}, {})
    assert manager.listed("podman", [found(WEB)], {}, {}).unneeded == [found(WEB)]


def test_a_lost_workload_that_is_applied_again_is_not_started_again() -> None:
    """Neither if it has a task, nor if the agent found it running after a restart."""
    manager = a_manager()
    manager.server_hello([], {"web": works_on(WEB)}, {}, keep_unlisted=True)
    assert manager.update_workload([WEB], [], {"web": works_on(WEB)}, {}) == Plan(keep=["web"])

    manager.server_hello([], {}, {}, keep_unlisted=True)
    assert manager.listed("podman", [found(WEB)], {}, {}) == Plan()
    expected = a_manager()
    expected.server_hello([WEB], {}, {})
    assert manager.update_workload([WEB], [], {}, {}) == expected.listed("podman", [found(WEB)], {}, {})
    assert manager.update_workload([WEB], [], {}, {}).operations == [CreateOperation(WEB)]
