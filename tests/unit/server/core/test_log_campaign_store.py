"""[utest->swdd~server-log-campaign-store-holds-log-campaign-metadata~1]"""

from ankaios.common.workload import InstanceName
from ankaios.server.core.log_campaign_store import LogCampaignStore
from ankaios.server.core.requester import Requester

WEB_B = InstanceName("web", "1", "B")
DB_B = InstanceName("db", "1", "B")
DB_C = InstanceName("db", "1", "C")
COLLECTOR = Requester("A", "collector")
CLI = Requester("cli-conn-1")


def a_store() -> LogCampaignStore:
    store = LogCampaignStore()
    store.insert("A@collector@1", COLLECTOR, [WEB_B, DB_C])
    store.insert("cli-conn-1@1", CLI, [WEB_B, DB_B])
    return store


def test_campaigns_end_with_the_agent_of_the_collector() -> None:
    store = a_store()
    assert store.remove_of_peer("A") == ["A@collector@1"]
    assert store.remove_of_peer("A") == []
    assert store.remove_provider_agent("C") == []


def test_campaigns_end_with_the_connection_of_the_command_line() -> None:
    store = a_store()
    assert store.remove_of_peer("cli-conn-1") == ["cli-conn-1@1"]
    assert "cli-conn-1@1" not in store


def test_campaigns_end_with_the_workload_that_collects() -> None:
    store = a_store()
    assert store.remove_of_workload("A", "other") == []
    assert store.remove_of_workload("A", "collector") == ["A@collector@1"]


def test_a_campaign_is_removed_by_its_id() -> None:
    store = a_store()
    store.remove("cli-conn-1@1")
    store.remove("never seen")
    assert store.remove_of_peer("cli-conn-1") == []


def test_a_log_collector_is_notified_once_for_each_provider_on_a_lost_agent() -> None:
    store = a_store()
    expected = [("A@collector@1", WEB_B), ("cli-conn-1@1", DB_B), ("cli-conn-1@1", WEB_B)]
    assert store.remove_provider_agent("B") == expected
    assert store.remove_provider_agent("B") == []
    assert store.remove_of_peer("A") == ["A@collector@1"], "another provider is still there"
    assert "cli-conn-1@1" not in store, "no provider is left"


def test_a_provider_that_has_stopped_is_not_stopped_again() -> None:
    store = a_store()
    store.provider_stopped("cli-conn-1@1", WEB_B)
    assert ("cli-conn-1@1", WEB_B) not in store.remove_provider_agent("B")


def test_a_campaign_ends_when_the_last_provider_has_stopped() -> None:
    store = a_store()
    store.provider_stopped("A@collector@1", DB_C)
    store.provider_stopped("A@collector@1", WEB_B)
    assert store.remove_of_workload("A", "collector") == []
    store.provider_stopped("never seen", WEB_B)


def test_the_same_id_again_is_a_new_campaign() -> None:
    store = a_store()
    store.insert("cli-conn-1@1", CLI, [DB_C])
    assert ("cli-conn-1@1", WEB_B) not in store.remove_provider_agent("B")
    assert "cli-conn-1@1" in store


def test_ended_campaigns_leave_no_data() -> None:
    store = a_store()
    store.remove_provider_agent("B")
    store.remove_provider_agent("C")
    assert vars(store) == vars(LogCampaignStore())
