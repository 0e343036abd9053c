"""Atomic changes: from accepted changes, reported states and the time to completed or restored rollouts."""

from typing import Any

import pytest
from msgspec import json

from ankaios.common.execution_state import (
    HEALTHY,
    PENDING_STARTING,
    PENDING_STARTING_FAILED,
    REMOVED,
    RUNNING_OK,
    STOPPING_REQUESTED_AT_RUNTIME,
    SUCCEEDED_OK,
    UNHEALTHY,
    ExecutionState,
    HealthState,
    exited,
)
from ankaios.common.messages import AgentGone, FromAgent, FromClient
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.workload import InstanceName
from ankaios.server.core.long_messages import LONG_SIZE
from ankaios.server.core.owned_requests import MAX_OPEN_REQUESTS
from ankaios.server.core.replies import Effect, HooksFinished, NextChange, RunHooks, SecondPassed, ServerMessage
from ankaios.server.core.rollouts import MOST_ENDED, MOST_RUNNING, Rollout, RolloutFacts, Rollouts, advance
from ankaios.server.core.stored_state import restored_state
from ankaios.storage.state_store import EntryKey
from tests.unit.server.scenario import CONFIG, Form, Scenario, a_form, a_state, error_of, responses, the_response

NEW = "image: alpine:4"
WEB, WEB2 = InstanceName.of("web", "n1", CONFIG), InstanceName.of("web", "n1", NEW)


class RolloutScenario(Scenario):
    """The clock does not advance until `passes` is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.now = 1000.0
        self.entries: dict[EntryKey, Any] = {}
        self.makes_next_changes = True
        self.server.state.now = self.now

    def apply(self, workloads: dict[str, Form], timeout: int = 60_000, settle: int = 5_000) -> base.Response:
        update = base.UpdateStateRequest(
            newState=COMPLETE_STATE.from_form(a_state(workloads)),
            updateMask=[f"desiredState.workloads.{name}" for name in workloads],
            atomic=base.AtomicOptions(timeoutMs=timeout, settleMs=settle),
        )
        return responses(self.ask("u", updateStateRequest=update))[-1]

    def passes(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.decide(SecondPassed())

    def handle(self, message: ServerMessage) -> list[Effect]:
        return self.decide(message)

    def decide(self, message: ServerMessage) -> list[Effect]:
        """Handle the message and its consequences, and keep the entries that a store would keep."""
        decision = self.server.decide(message, self.now)
        if decision.change is not None:
            self.entries |= {entry.key: entry.after for entry in decision.change.entries}
        if not self.makes_next_changes:
            return decision.effects
        return [
            it
            for effect in decision.effects
            for it in (self.decide(effect) if isinstance(effect, NextChange) else [effect])
        ]

    def status(self, name: str = "rollout-1") -> tuple[str, str]:
        wanted = base.RolloutsRequest(names=[name])
        (info,) = the_response(self.ask("s", rolloutsRequest=wanted)).rolloutsResponse.rollouts
        return base.RolloutPhase.Name(info.phase).removeprefix("ROLLOUT_").lower(), info.reason

    def config_of(self, name: str) -> str | None:
        workloads = self.get(f"desiredState.workloads.{name}").get("desiredState", {}).get("workloads", {})
        return workloads[name]["runtimeConfig"] if name in workloads else None


def updating(**more: Any) -> RolloutScenario:
    """`web` runs and is updated atomically."""
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(**more)}))
    scenario.report("n1", {WEB: RUNNING_OK})
    assert scenario.apply({"web": a_form(config=NEW, **more)}).UpdateStateSuccess.rollout == "rollout-1"
    return scenario


def replaced(scenario: RolloutScenario, state: ExecutionState) -> None:
    scenario.report("n1", {WEB: REMOVED, WEB2: state})


def test_a_change_is_completed_when_all_workloads_stay_ready_for_the_settle_time() -> None:
    scenario = updating()
    replaced(scenario, RUNNING_OK)
    assert scenario.status() == ("settling", "")
    scenario.passes(4)
    assert scenario.status() == ("settling", "")
    scenario.passes(1)
    assert scenario.status() == ("completed", "")
    assert scenario.config_of("web") == NEW


def test_a_job_that_succeeds_is_ready() -> None:
    scenario = updating()
    replaced(scenario, SUCCEEDED_OK)
    scenario.passes(5)
    assert scenario.status()[0] == "completed"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (exited(1), "workload 'web' on agent 'n1' is Failed(ExecFailed): Exit code: '1'"),
        (PENDING_STARTING_FAILED.because("bad"), "workload 'web' on agent 'n1' is Pending(StartingFailed): bad"),
    ],
)
def test_a_final_failure_restores_the_previous_state_immediately(state: ExecutionState, reason: str) -> None:
    scenario = updating()
    replaced(scenario, state)
    assert scenario.status() == ("restoring", reason)
    assert scenario.config_of("web") == CONFIG
    scenario.report("n1", {WEB2: REMOVED, WEB: RUNNING_OK})
    assert scenario.status() == ("restored", reason)


def test_a_workload_that_is_not_ready_in_time_restores_the_previous_state() -> None:
    scenario = updating()
    replaced(scenario, PENDING_STARTING.because("Retry 3: no such image"))
    scenario.passes(59)
    assert scenario.status()[0] == "waiting"
    scenario.passes(1)
    text = "not ready within 60 s: workload 'web' on agent 'n1' is Pending(Starting): Retry 3: no such image"
    assert scenario.status() == ("restoring", text)


def test_the_previous_state_has_a_minute_even_if_the_time_limit_is_short() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.report("n1", {WEB: RUNNING_OK})
    scenario.apply({"web": a_form(config=NEW)}, timeout=2_000)
    replaced(scenario, PENDING_STARTING)
    scenario.passes(2)
    scenario.passes(59)
    assert scenario.status()[0] == "restoring"
    scenario.passes(1)
    assert scenario.status()[0] == "restore_incomplete"


def test_a_failure_that_is_followed_by_a_restart_is_waited_for() -> None:
    scenario = updating(restartPolicy="ON_FAILURE")
    replaced(scenario, exited(1))
    assert scenario.status()[0] == "waiting"
    scenario.report("n1", {WEB2: RUNNING_OK})
    assert scenario.status()[0] == "settling"


def test_a_workload_that_fails_during_the_settle_time_restores_the_previous_state() -> None:
    scenario = updating(restartPolicy="ALWAYS")
    replaced(scenario, RUNNING_OK)
    scenario.passes(3)
    scenario.report("n1", {WEB2: exited(7)})
    text = "did not stay ready for 5 s: workload 'web' on agent 'n1' is Failed(ExecFailed): Exit code: '7'"
    assert scenario.status() == ("restoring", text)


def test_health_checks_decide_whether_a_workload_is_ready() -> None:
    scenario = updating(health={"tcp": {"port": 80}})
    replaced(scenario, RUNNING_OK)
    assert scenario.status()[0] == "waiting"
    scenario.report("n1", {WEB2: ExecutionState("Running", "Ok", health=HealthState(HEALTHY))})
    assert scenario.status()[0] == "settling"
    scenario.report("n1", {WEB2: ExecutionState("Running", "Ok", health=HealthState(UNHEALTHY, "refused"))})
    text = "did not stay ready for 5 s: workload 'web' on agent 'n1' is Running(Ok) but not healthy: Unhealthy refused"
    assert scenario.status() == ("restoring", text)


def test_an_agent_that_is_lost_restores_the_previous_state_and_is_reported() -> None:
    scenario = updating()
    replaced(scenario, RUNNING_OK)
    scenario.decide(AgentGone("n1"))
    assert scenario.status()[0] == "restoring"
    assert "AgentDisconnected" in scenario.status()[1]
    scenario.passes(60)
    phase, reason = scenario.status()
    assert phase == "restore_incomplete"
    assert "the previous state is not reached" in reason
    assert scenario.config_of("web") == CONFIG


def test_an_instance_that_keeps_its_name_counts_only_after_its_predecessor_has_stopped() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.report("n1", {WEB: RUNNING_OK})
    scenario.apply({"web": a_form(tags={"a": "b"})})
    scenario.passes(1)
    assert scenario.status()[0] == "waiting", "the running instance is the old one"
    scenario.report("n1", {WEB: STOPPING_REQUESTED_AT_RUNTIME})
    scenario.report("n1", {WEB: RUNNING_OK})
    assert scenario.status()[0] == "settling"


def test_created_workloads_are_removed_again_and_deleted_ones_come_back() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"old": a_form()}))
    old, new = InstanceName.of("old", "n1", CONFIG), InstanceName.of("new", "n1", CONFIG)
    scenario.report("n1", {old: RUNNING_OK})
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({"new": a_form()})), atomic=base.AtomicOptions()
    )
    scenario.ask("u", updateStateRequest=update)
    scenario.report("n1", {old: REMOVED, new: exited(1)})
    assert (scenario.config_of("new"), scenario.config_of("old")) == (None, CONFIG)
    scenario.report("n1", {new: REMOVED})
    assert scenario.status()[0] == "restoring"
    scenario.report("n1", {old: RUNNING_OK})
    assert scenario.status()[0] == "restored"


def test_a_workload_that_did_not_run_before_need_not_run_after_the_restoration() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.report("n1", {WEB: exited(9)})
    scenario.apply({"web": a_form(config=NEW)})
    replaced(scenario, exited(1))
    assert scenario.status()[0] == "restoring"
    scenario.passes(1)
    assert scenario.status()[0] == "restored"


def test_a_conflicting_change_is_rejected_with_the_name_of_the_rollout_and_others_are_accepted() -> None:
    scenario = updating()
    text = error_of(scenario.update(a_state({"web": a_form(config="third")}), "desiredState.workloads.web"))
    assert "workload 'web' is part of the running rollout 'rollout-1'" in text
    plan = base.PlanRequest(update=base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(a_state({}))))
    assert the_response(scenario.ask("p", planRequest=plan)).planResponse.rejectedBy == "rollout"
    scenario.update(a_state({"db": a_form()}), "desiredState.workloads.db")
    assert scenario.config_of("db") == CONFIG
    replaced(scenario, RUNNING_OK)
    scenario.passes(5)
    scenario.update(a_state({"web": a_form(config="third")}), "desiredState.workloads.web")
    assert scenario.config_of("web") == "third"


def test_followers_get_every_change_until_the_end() -> None:
    scenario = updating()
    wanted = base.RolloutsRequest(names=["rollout-1"], follow=True)
    scenario.ask("f", rolloutsRequest=wanted)
    seen = responses(scenario.report("n1", {WEB: REMOVED, WEB2: RUNNING_OK}))
    assert seen[-1].rolloutsResponse.rollouts[0].phase == base.ROLLOUT_SETTLING
    assert seen[-1].rolloutsResponse.rollouts[0].workloads[0].isReady
    (last,) = responses(scenario.passes(5))
    assert last.rolloutsResponse.rollouts[0].phase == base.ROLLOUT_COMPLETED
    assert responses(scenario.passes(5)) == []


def test_an_unknown_rollout_is_an_error() -> None:
    wanted = base.RolloutsRequest(names=["x"])
    assert error_of(RolloutScenario().ask("f", rolloutsRequest=wanted)) == "unknown rollout 'x'"


def test_a_change_that_changes_no_workload_makes_no_rollout() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({}, configs={"a": "1"})), atomic=base.AtomicOptions()
    )
    (response,) = responses(scenario.ask("u", updateStateRequest=update))
    assert not response.UpdateStateSuccess.HasField("rollout")


def test_hooks_do_not_run_when_the_previous_state_is_restored() -> None:
    scenario = RolloutScenario(has_hooks=True)
    scenario.hello("n1")
    (shown,) = scenario.update(a_state({"web": a_form()}))
    assert isinstance(shown, RunHooks)
    shown.update.addedWorkloads[0].workload.tags.tags["by"] = "hook"
    scenario.handle(HooksFinished(shown.update))
    scenario.report("n1", {WEB: RUNNING_OK})
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({"web": a_form(config=NEW)})), atomic=base.AtomicOptions()
    )
    scenario.ask("u", updateStateRequest=update)
    scenario.handle(HooksFinished(None))
    replaced(scenario, exited(1))
    assert scenario.status()[0] == "restoring"
    effective = scenario.get("effectiveState.workloads.web")["effectiveState"]["workloads"]["web"]
    assert (effective["runtimeConfig"], effective["tags"]) == (CONFIG, {"by": "hook"})


def test_a_rollout_continues_after_a_restart_of_the_server() -> None:
    first = RolloutScenario()
    first.decide(FromAgent("n1", grpc.ToServer(agentHello=grpc.AgentHello(agentName="n1"))))
    for config, atomic in ((CONFIG, None), (NEW, base.AtomicOptions())):
        state = COMPLETE_STATE.from_form(a_state({"web": a_form(config=config)}))
        update = base.UpdateStateRequest(newState=state, atomic=atomic)
        first.decide(FromClient("cli-conn-1", base.Request(requestId="cli-conn-1@u", updateStateRequest=update)))
    second = restarted(first)
    second.passes(1)
    assert second.status()[0] == "waiting"
    second.hello("n1")
    second.report("n1", {WEB2: exited(1)})
    assert second.status()[0] == "restoring"
    assert second.config_of("web") == CONFIG


def restarted(scenario: RolloutScenario) -> RolloutScenario:
    stored = json.decode(json.encode([(key.kind, key.name, value) for key, value in scenario.entries.items()]))
    after = RolloutScenario(is_durable=True)
    entries = {EntryKey(kind, name): value for kind, name, value in stored if value is not None}
    restored = restored_state(entries)
    assert restored.faults == []
    after.server.restore(restored, last_revision=2)
    return after


def test_a_server_that_ends_before_it_restores_the_previous_state_does_it_after_its_start() -> None:
    scenario = updating()
    scenario.makes_next_changes = False
    replaced(scenario, exited(1))
    scenario = restarted(scenario)
    assert scenario.status()[0] == "restoring"
    assert scenario.config_of("web") == NEW
    scenario.passes(1)
    assert scenario.config_of("web") == CONFIG


def test_a_previous_state_with_many_entries_takes_long_to_restore() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    for number, is_long in ((1, False), (LONG_SIZE + 1, True)):
        names = [f"w{number}-{index}" for index in range(number)]
        scenario.apply({name: a_form() for name in names})
        scenario.makes_next_changes = False
        effects = scenario.report("n1", {InstanceName.of(names[0], "n1", CONFIG): exited(1)})
        assert NextChange() in effects
        assert scenario.server.takes_long(NextChange()) == is_long
        scenario.makes_next_changes = True
        scenario.decide(NextChange())
        assert scenario.config_of(names[0]) is None


def test_an_internal_error_while_the_previous_state_is_restored_ends_the_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = updating()
    scenario.makes_next_changes = False
    replaced(scenario, exited(1))
    with monkeypatch.context() as patch:
        patch.setattr(scenario.server.state, "put_desired", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scenario.decide(NextChange())
    assert scenario.server.recover(NextChange(), "a bug") == []
    assert scenario.status()[0] == "restore_incomplete"
    assert "cannot be restored: a bug" in scenario.status()[1]


def test_a_previous_state_that_another_change_has_made_impossible_is_reported() -> None:
    """`web` needed `db` before the change; meanwhile `db` needs `web`."""
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form(dependencies={"db": "ADD_COND_RUNNING"}), "db": a_form()}))
    scenario.report("n1", {WEB: RUNNING_OK})
    scenario.apply({"web": a_form(config=NEW)})
    scenario.update(a_state({"db": a_form(dependencies={"web": "ADD_COND_RUNNING"})}), "desiredState.workloads.db")
    replaced(scenario, exited(1))
    phase, reason = scenario.status()
    assert phase == "restore_incomplete"
    assert "Exit code: '1'; the previous state cannot be restored: workload dependency" in reason
    assert scenario.config_of("web") == NEW


def test_a_deleted_workload_is_ready_when_it_is_removed() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    scenario.update(a_state({"web": a_form()}))
    scenario.report("n1", {WEB: RUNNING_OK})
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({})), atomic=base.AtomicOptions(timeoutMs=3_000, settleMs=0)
    )
    scenario.ask("u", updateStateRequest=update)
    scenario.passes(3)
    assert scenario.status() == ("restoring", "not ready within 3 s: workload 'web' is not removed")


def test_a_workload_without_a_state_is_not_ready() -> None:
    scenario = updating()
    scenario.report("n1", {WEB: REMOVED, WEB2: REMOVED})
    scenario.passes(60)
    assert scenario.status()[1] == "not ready within 60 s: workload 'web' on agent 'n1' has no state"


def test_states_of_other_workloads_do_not_concern_a_rollout() -> None:
    scenario = updating()
    scenario.update(a_state({"db": a_form()}), "desiredState.workloads.db")
    scenario.ask("f", rolloutsRequest=base.RolloutsRequest(follow=True))
    assert responses(scenario.report("n1", {InstanceName.of("db", "n1", CONFIG): RUNNING_OK})) == []


def test_followers_get_only_the_rollouts_that_they_named_and_end_with_their_connection() -> None:
    scenario = updating()
    scenario.apply({"db": a_form()})
    scenario.ask("f", rolloutsRequest=base.RolloutsRequest(names=["rollout-2"], follow=True))
    assert responses(scenario.report("n1", {WEB: REMOVED, WEB2: RUNNING_OK})) == []
    db = InstanceName.of("db", "n1", CONFIG)
    assert len(responses(scenario.report("n1", {db: RUNNING_OK}))) == 1
    scenario.goodbye()
    assert responses(scenario.report("n1", {db: exited(1)})) == []


def test_a_connection_follows_a_bounded_number_of_times() -> None:
    scenario = updating()
    wanted = base.RolloutsRequest(follow=True)
    for number in range(MAX_OPEN_REQUESTS):
        the_response(scenario.ask(f"f{number}", rolloutsRequest=wanted))
    assert "subscriptions for rollouts" in error_of(scenario.ask("more", rolloutsRequest=wanted))


def test_the_number_of_running_rollouts_is_bounded() -> None:
    scenario = RolloutScenario()
    scenario.hello("n1")
    for number in range(MOST_RUNNING):
        assert scenario.apply({f"w{number}": a_form()}).UpdateStateSuccess.HasField("rollout")
    assert (
        f"{MOST_RUNNING} rollouts are running, wait until one has ended"
        in scenario.apply({"x": a_form()}).error.message
    )
    assert scenario.config_of("x") is None


def test_only_the_last_rollouts_are_kept() -> None:
    scenario = updating()
    for number in range(MOST_ENDED + 2):
        scenario.apply({f"w{number}": a_form()}, settle=0)
        scenario.report("n1", {InstanceName.of(f"w{number}", "n1", CONFIG): RUNNING_OK})
        scenario.passes(1)
    infos = the_response(scenario.ask("s", rolloutsRequest=base.RolloutsRequest())).rolloutsResponse.rollouts
    assert [info.name for info in infos] == ["rollout-1", *(f"rollout-{n}" for n in range(4, MOST_ENDED + 4))]


def test_a_workload_that_is_no_longer_desired_is_not_waited_for() -> None:
    rollout = Rollout("rollout-1", "ank", 0, 60_000, 5_000, 60_000, (), ("broker",))
    facts = RolloutFacts(view=lambda _: None, exists=lambda _: False)
    assert advance(rollout, facts, 1).phase == "settling"


def test_a_stored_rollout_that_cannot_be_read_is_reported_and_others_continue() -> None:
    stored = Rollouts()
    (entry,) = stored.put(Rollout("rollout-7", "ank", 0, 60_000, 5_000, 60_000, (), ("web",)))
    rollouts = Rollouts()
    (fault,) = rollouts.restore({"rollout-7": entry.after, "rollout-8": {"name": 1}})
    assert fault.startswith("rollout 'rollout-8': ")
    assert [it.name for it in rollouts.running()] == ["rollout-7"]
    assert rollouts.next_name() == "rollout-8"
