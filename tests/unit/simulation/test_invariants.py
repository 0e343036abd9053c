"""The invariants find the violations for which they are made."""

from ankaios.common.workload import InstanceName
from ankaios.simulation.invariants import (
    LiveInstances,
    check_changes,
    check_convergence,
    check_states,
    permitted_values,
)
from ankaios.simulation.operator import ACCEPTED, REJECTED, UNKNOWN, OperatorChange


def operation(value: str | None, outcome: str) -> OperatorChange:
    return OperatorChange("web", value, 0.0, outcome=outcome)


def desired(**versions: str) -> dict[str, object]:
    return {"workloads": {name: {"agent": "a", "runtimeConfig": version} for name, version in versions.items()}}


WEB = InstanceName.of("web", "a", "v1")
OLD = InstanceName.of("web", "a", "v0")


def test_the_last_accepted_change_decides_and_unanswered_ones_stay_possible() -> None:
    done = [operation("v0", ACCEPTED), operation("v1", UNKNOWN), operation("v2", ACCEPTED), operation("v3", REJECTED)]
    assert permitted_values(done, "web") == {"v2", "v1"}
    assert permitted_values([], "web") == {None}


def test_a_lost_change_is_found() -> None:
    assert check_changes([operation("v1", ACCEPTED)], desired(web="v1"), ["web"]) == []
    assert check_changes([operation("v1", ACCEPTED)], desired(web="v0"), ["web"])
    assert check_changes([operation("v1", ACCEPTED)], desired(), ["web"])
    assert check_changes([operation(None, ACCEPTED)], desired(web="v1"), ["web"])


def test_two_live_instances_are_found() -> None:
    live = LiveInstances()
    assert live.changed("a", "c1", OLD, "started", 1.0) is None
    assert live.changed("a", "c2", WEB, "started", 1.0) is not None
    live.changed("a", "c1", OLD, "removed", 1.0)
    live.changed("a", "c2", WEB, "ended", 1.0)
    assert live.changed("a", "c3", WEB, "started", 1.0) is None
    assert live.was_started("web") and not live.was_started("db")


def test_convergence_means_what_is_desired_and_nothing_else() -> None:
    assert check_convergence(desired(web="v1"), {"a": [WEB]}, ["a"]) == []
    assert check_convergence(desired(web="v1"), {"a": []}, ["a"])
    assert check_convergence(desired(web="v1"), {"a": [OLD, WEB]}, ["a"])
    assert check_convergence(desired(web="v1"), {"a": [WEB, WEB]}, ["a"])


def test_an_old_instance_may_wait_for_its_dependents() -> None:
    ui = InstanceName.of("ui", "a", "v0")
    state = {"workloads": {"ui": {"agent": "a", "runtimeConfig": "v0", "dependencies": {"web": "ADD_COND_RUNNING"}}}}
    assert check_convergence(state, {"a": [ui, OLD]}, ["a"]) == []
    assert check_convergence(state, {"a": []}, ["a"]) == []


def test_wrong_states_of_an_idle_cluster_are_found() -> None:
    def shown(state: str) -> dict[str, object]:
        return {"a": {"web": {WEB.id: {"state": state}}}}

    wanted = desired(web="v1")
    assert check_states(wanted, shown("Running"), {"a": [WEB]}) == []
    assert check_states(wanted, shown("Stopping"), {"a": [WEB]}) == []
    assert check_states(wanted, shown("Pending"), {"a": [WEB]})
    assert check_states(wanted, shown("Running"), {"a": []})
    assert check_states(wanted, shown("Pending"), {"a": []}) == []
    assert check_states({}, shown("Stopping"), {"a": []})
