"""What a server stores, and how another server continues with it."""

from typing import Any

import pytest

from ankaios.common.messages import ClientIdentity, FromAgent, FromClient
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.replies import Decision, HooksFinished, SecondPassed
from ankaios.server.core.state_update import changes_from_message
from ankaios.server.core.stored_state import restored_state
from ankaios.storage.state_store import EntryChange, EntryKey, Revision, StateChange, Stored
from tests.unit.server.scenario import CLI, Form, Scenario, a_form, a_state, effects_as_lines, events_of, success_of


def stored_form(**more: Any) -> Form:
    return {**a_form(**more), "restartPolicy": "NEVER"}


class StoredScenario(Scenario):
    """A server whose changes are kept, so that another one can continue with them."""

    def __init__(self, stored: Stored | None = None, **options: Any) -> None:
        super().__init__(is_durable=True, **options)
        self.entries = dict(stored.entries) if stored else {}
        self.revisions = {revision.number: revision for revision in stored.revisions} if stored else {}
        self.last: StateChange | None = None
        if stored is not None:
            restored = restored_state(stored.entries)
            self.faults = restored.faults
            self.keep(self.server.restore(restored, stored.revisions, stored.last_revision))

    def decide(self, message: Any, now: float = 5.0) -> Decision:
        decision = self.server.decide(message, now)
        self.keep(decision.change)
        return decision

    def keep(self, change: StateChange | None) -> None:
        self.last = change
        for entry in change.entries if change else ():
            assert self.entries.get(entry.key) == entry.before
            self.entries.pop(entry.key, None)
            if entry.after is not None:
                self.entries[entry.key] = entry.after
        if change and change.revision:
            self.revisions[change.revision.number] = change.revision

    def change(self, state: Form, *masks: str, sender: str = "", **more: Any) -> Decision:
        content = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form(state), updateMask=masks, **more)
        request = base.Request(requestId=f"{CLI}@u", updateStateRequest=content)
        return self.decide(FromClient(CLI, request, ClientIdentity(sender)))

    def stored(self) -> Stored:
        revisions = tuple(self.revisions.values())
        return Stored(dict(self.entries), revisions, last_revision=max(self.revisions, default=0))


def test_an_update_is_stored_with_its_revision_and_only_changed_entries() -> None:
    scenario = StoredScenario()
    scenario.change(a_state({"web": a_form(), "db": a_form()}))
    decision = scenario.change(a_state({"web": a_form(config="new")}), "desiredState.workloads.web", sender="alice")
    entry = EntryChange("workload", "web", stored_form(), stored_form(config="new"))
    revision = Revision(2, 5.0, "alice", ("desiredState.workloads.web",), (entry,))
    assert decision.change == StateChange((entry,), revision)


def test_an_update_that_changes_nothing_and_a_rejected_one_store_nothing() -> None:
    scenario = StoredScenario()
    scenario.change(a_state({"web": a_form()}))
    assert scenario.change(a_state({"web": a_form()})).change is None
    assert scenario.change(a_state({"web": a_form(config="{{x", configs={"a": "missing"})})).change is None
    assert scenario.server.decide(SecondPassed(), 1.0).change is None


def test_the_requester_of_a_workload_is_its_name() -> None:
    scenario = StoredScenario()
    rule = {"type": "StateRule", "operation": "ReadWrite", "filterMasks": ["*"]}
    scenario.change(a_state({"web": a_form(controlInterfaceAccess={"allowRules": [rule]})}))
    scenario.hello("n1")
    update = base.UpdateStateRequest(
        newState=COMPLETE_STATE.from_form(a_state({"db": a_form()})), updateMask=["desiredState.workloads.db"]
    )
    scenario.ask_through("n1", "n1@web@1", updateStateRequest=update)
    change = scenario.server._change
    assert change is not None
    assert change.revision is not None
    assert change.revision.requester == "workload 'web' on agent 'n1'"


def test_only_clients_that_support_revisions_receive_them() -> None:
    scenario = StoredScenario()
    for sender, expected in (("alice", True), ("", False)):  # programs of Eclipse Ankaios send no user
        decision = scenario.change(a_state({"web": a_form(config=sender)}), sender=sender)
        (success,) = [it.response for it in decision.effects if hasattr(it, "response")]
        assert success.UpdateStateSuccess.HasField("revision") == expected


def test_another_server_continues_with_the_stored_state() -> None:
    first = StoredScenario()
    first.change(
        a_state(
            {"web": a_form(config="{{a}}", configs={"a": "key"}), "db": a_form(agent="n2")},
            configs={"key": "value"},
            deviceConfigurations={"cam": {"discoveryHandler": {"name": "debugEcho"}}},
        )
    )
    first.change(a_state(), "desiredState.workloads.db")
    second = StoredScenario(first.stored())
    assert second.faults == []
    assert second.last is None
    assert second.get("desiredState") == first.get("desiredState")
    assert second.get("effectiveState") == first.get("effectiveState")
    assert second.get("workloadStates") == first.get("workloadStates")
    assert effects_as_lines(second.hello("n1")) == effects_as_lines(first.hello("n1"))
    change = second.change(a_state({"new": a_form()}), "desiredState.workloads.new").change
    assert change is not None
    assert change.revision is not None
    assert change.revision.number == 3


def test_entries_that_cannot_be_used_are_reported_and_the_others_are_used() -> None:
    entries = {
        EntryKey("workload", "web"): a_form(),
        EntryKey("workload", "bad"): {"agent": 7},
        EntryKey("workload", "lost"): a_form(config="{{a}}", configs={"a": "missing"}),
        EntryKey("hooked", "odd"): {"form": {}},
        EntryKey("rollout", "later"): {"any": "thing"},
    }
    scenario = StoredScenario(Stored(entries, last_revision=4))
    assert [fault.partition(":")[0] for fault in scenario.faults] == [
        "workload 'bad'",
        "workload 'lost'",
        "workload 'odd' as changed by mutating hooks",
    ]
    assert scenario.get("effectiveState.workloads")["effectiveState"]["workloads"].keys() == {"web"}


def test_the_result_of_mutating_hooks_is_stored() -> None:
    first = StoredScenario(has_hooks=True)
    shown = first.change(a_state({"web": a_form(), "gone": a_form()})).effects[0].update  # type: ignore[union-attr]
    hooked = grpc.UpdateWorkload()
    hooked.CopyFrom(shown)
    for added in list(hooked.addedWorkloads):
        if added.instanceName.workloadName == "gone":
            hooked.addedWorkloads.remove(added)
        else:
            added.workload.runtimeConfig = "changed"
    first.decide(HooksFinished(hooked))
    assert changes_from_message(hooked).added.keys() == {"web"}
    second = StoredScenario(first.stored(), has_hooks=True)
    assert second.get("effectiveState") == first.get("effectiveState")
    assert second.get("effectiveState")["effectiveState"]["workloads"]["web"]["runtimeConfig"] == "changed"

    # Without a hook that changes them, the entries end.
    second.change(a_state({"web": a_form(config="other")}))
    second.decide(HooksFinished(None))
    assert not [key for key in second.entries if key.kind == "hooked"]


def test_requested_tags_are_kept_after_a_restart_until_the_agent_has_a_new_configuration() -> None:
    first = StoredScenario()
    first.hello("n1", {"zone": "a"})
    first.change({"agents": {"n1": {"tags": {"zone": "b"}}}}, "agents.n1.tags")
    second = StoredScenario(first.stored())
    second.hello("n1", {"zone": "a"})
    assert second.get("agents")["agents"]["n1"]["tags"] == {"zone": "b"}
    second.gone("n1")
    second.hello("n1", {"zone": "c"})
    assert second.server._change == StateChange(
        (EntryChange("agentTags", "n1", {"tags": {"zone": "b"}, "reported": {"zone": "a"}}, None),)
    )
    assert second.get("agents")["agents"]["n1"]["tags"] == {"zone": "c"}


def test_without_a_store_the_tags_of_the_hello_count() -> None:
    scenario = Scenario()
    scenario.hello("n1", {"zone": "a"})
    scenario.update({"agents": {"n1": {"tags": {"zone": "b"}}}}, "agents.n1.tags")
    scenario.gone("n1")
    scenario.hello("n1", {"zone": "a"})
    assert scenario.get("agents")["agents"]["n1"]["tags"] == {"zone": "a"}


class PlacedScenario(StoredScenario):
    def decide_from(self, agent: str, **content: Any) -> Decision:
        return self.decide(FromAgent(agent, grpc.ToServer(**content)))

    def settle(self, *agents: str) -> None:
        for agent in agents:
            hello = grpc.AgentHello(agentName=agent, protocolVersion="1.0.0", devices=True)
            self.decide_from(agent, agentHello=hello)
            self.decide_from(agent, knownWorkloads=grpc.KnownWorkloads())
            self.decide_from(agent, deviceReport=grpc.DeviceReport(complete=True))
        for _ in range(4):
            self.decide(SecondPassed())

    def agent_of(self, workload: str) -> str:
        agent: str = self.get("effectiveState")["effectiveState"]["workloads"][workload]["agent"]
        return agent


def test_a_placement_is_stored_and_the_workload_stays_there() -> None:
    first = PlacedScenario()
    first.settle("n2")
    first.change(a_state({"web": a_form(agent="", placement={})}))
    assert first.agent_of("web") == "n2"
    placement = first.entries[EntryKey("placement", "web")]
    assert placement["agent"] == "n2"

    second = PlacedScenario(first.stored())
    assert second.agent_of("web") == "n2"
    second.settle("n1")
    assert second.agent_of("web") == "n2"
    assert second.entries[EntryKey("placement", "web")] == placement

    second.change(a_state())
    assert EntryKey("placement", "web") not in second.entries


def test_a_stored_placement_ends_with_its_agent_or_its_workload() -> None:
    first = PlacedScenario()
    first.settle("n2")
    first.change(a_state({"web": a_form(agent="", placement={})}))
    first.entries[EntryKey("placement", "unknown")] = {"agent": "n9", "id": "x"}
    second = PlacedScenario(first.stored())
    second.settle("n1")
    assert EntryKey("placement", "unknown") not in second.entries
    for _ in range(301):
        second.decide(SecondPassed())
    assert second.agent_of("web") == "n1"
    assert second.entries[EntryKey("placement", "web")]["agent"] == "n1"


def test_the_startup_state_is_a_revision() -> None:
    server = AnkaiosServer(is_durable=True)
    desired = a_state({"web": a_form()})["desiredState"]
    change = server.finish_start(server.prepare_start(desired), now=3.0)
    assert change is not None
    assert change.revision == Revision(1, 3.0, "startup manifest", (), change.entries)


def test_records_of_a_start_have_its_time() -> None:
    server = AnkaiosServer(is_durable=True)
    change = server.finish_start(server.prepare_start(a_state({"web": a_form()})["desiredState"]), now=3.0)
    assert [record.time_ms for record in server.state.records.select()] == [3000]
    assert change is not None
    again = AnkaiosServer(is_durable=True)
    again.restore(restored_state({entry.key: entry.after for entry in change.entries if entry.after}), now=4.0)
    assert [record.time_ms for record in again.state.records.select()] == [4000]


def test_a_startup_state_as_an_update_keeps_other_entries() -> None:
    scenario = StoredScenario()
    scenario.change(a_state({"web": a_form(), "db": a_form()}))
    update = a_state({"web": a_form(config="new"), "mq": a_form()})["desiredState"]
    scenario.keep(scenario.server.finish_start(scenario.server.prepare_start(update, as_update=True)))
    assert {key.name for key in scenario.entries} == {"web", "db", "mq"}
    assert scenario.entries[EntryKey("workload", "web")] == stored_form(config="new")


def test_old_revisions_are_dropped_while_nothing_changes() -> None:
    scenario = StoredScenario()
    scenario.change(a_state({"web": a_form()}))
    scenario.change(a_state())
    assert scenario.server.decide(SecondPassed(), 1e9).change == StateChange((), None, (1,))


def test_an_internal_error_after_a_change_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = StoredScenario()
    with monkeypatch.context() as patch:
        patch.setattr(scenario.server._devices, "desired_changed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scenario.change(a_state({"web": a_form()}))
    assert not scenario.server.has_unstored_changes
    scenario.server.recover(SecondPassed(), "a bug")
    assert scenario.server.has_unstored_changes


def test_the_greeting_contains_the_term() -> None:
    scenario = StoredScenario(term=7)
    (hello,) = [effect.message.serverHello for effect in scenario.hello("n1") if hasattr(effect, "message")]
    assert hello.term == 7


def test_events_are_not_affected() -> None:
    scenario = StoredScenario()
    scenario.subscribe("desiredState.workloads")
    effects = scenario.change(a_state({"web": a_form()})).effects
    assert len(events_of(effects)) == 1
    assert success_of(effects)[0]


def test_after_a_loss_agents_keep_what_is_not_listed_and_those_that_cannot_are_not_greeted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scenario = StoredScenario(keeps_unlisted=True)
    hello = grpc.AgentHello(agentName="n1", protocolVersion="1.0.0", keepsUnlisted=True)
    (greeting,) = [
        it.message.serverHello for it in scenario.from_agent("n1", agentHello=hello) if hasattr(it, "message")
    ]
    assert greeting.keepUnlisted
    assert effects_as_lines(scenario.hello("n2")) == []
    assert "Agent 'n2' gets no commands" in caplog.text
