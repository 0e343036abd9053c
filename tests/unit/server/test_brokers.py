from typing import Any

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.brokers import brokers_of
from ankaios.server.core.replicas import derived_name
from tests.unit.server.directories import a_configuration


def a_broker(strategy: base.BrokerStrategy, **fields: Any) -> base.DeviceConfiguration:
    workload = base.Workload(runtime="podman", runtimeConfig="image: x")
    if "resources" in fields:
        workload.resources.resources.extend(fields.pop("resources"))
    if "agent" in fields:
        workload.agent = fields.pop("agent")
    distinct = fields.pop("distinct", base.DISTINCT_REQUIRED)
    return a_configuration(broker=base.Broker(strategy=strategy, workload=workload, **fields), distinct=distinct)


def cameras(*names: str, nodes: tuple[str, ...] = ("a",), **more: Any) -> dict[str, base.DeviceInstance]:
    fields = {"capacity": 1, "shared": True, **more}
    return {name: base.DeviceInstance(configurationName="cam", nodes=nodes, **fields) for name in names}


def test_a_configuration_without_broker_has_none() -> None:
    assert brokers_of("cam", a_configuration(), cameras("cam-1"), {}) == {}


def test_every_node_that_sees_a_device_gets_a_broker_that_requests_it() -> None:
    """[utest->akri~broker-per-node~1]"""
    found = brokers_of("cam", a_broker(base.BROKER_PER_NODE), cameras("cam-1", nodes=("b", "a"), capacity=2), {})
    assert sorted(found) == ["cam-1-broker-a", "cam-1-broker-b"]
    assert found["cam-1-broker-b"] == {
        "runtime": "podman",
        "runtimeConfig": "image: x",
        "resources": [{"name": "akri.sh/cam-1", "quantity": 1}],
        "tags": {"akri-configuration": "cam", "akri-instance": "cam-1"},
        "agent": "b",
    }


def test_a_local_device_has_one_broker_without_the_name_of_the_node() -> None:
    """[utest->akri~broker-per-node~1]"""
    assert list(brokers_of("cam", a_broker(base.BROKER_PER_NODE), cameras("cam-1", shared=False), {})) == [
        "cam-1-broker"
    ]


def test_there_are_no_more_brokers_than_slots_and_existing_brokers_stay() -> None:
    """Akri creates one for each node, and the surplus brokers wait forever."""
    broker, seen = a_broker(base.BROKER_PER_NODE), cameras("cam-1", nodes=("a", "b"))
    assert list(brokers_of("cam", broker, seen, {})) == ["cam-1-broker-a"]
    assert list(brokers_of("cam", broker, seen, {"cam-1-broker-b": {}})) == ["cam-1-broker-b"]
    seen["cam-1"].slotOwners.values["cam-1-0"] = "cam-1-broker-b.0123.b"
    assert list(brokers_of("cam", broker, seen, {"cam-1-broker-a": {}})) == ["cam-1-broker-b"]


def test_every_device_gets_one_job_on_an_agent_with_a_free_slot() -> None:
    """[utest->akri~broker-job-per-device~1]"""
    seen = cameras("cam-1", nodes=("a", "b")) | cameras("cam-2", nodes=("b",), shared=False)
    found = brokers_of("cam", a_broker(base.BROKER_PER_DEVICE), seen, {})
    assert {name: (form["agent"], form.get("placement")) for name, form in found.items()} == {
        "cam-1-job": ("", {}),
        "cam-2-job": ("b", None),
    }


def test_replicas_request_any_device() -> None:
    """[utest->akri~broker-on-configuration-level~1]"""
    broker = a_broker(base.BROKER_PER_CONFIGURATION, replicas=2, quantity=2)
    found = brokers_of("cam", broker, cameras("cam-1", "cam-2", capacity=2), {})
    assert list(found) == ["cam-broker-0", "cam-broker-1"]
    assert found["cam-broker-0"]["resources"] == [{"name": "akri.sh/cam", "quantity": 2}]
    assert found["cam-broker-0"]["placement"] == {}
    assert found["cam-broker-0"]["tags"] == {"akri-configuration": "cam"}


def test_a_broker_bound_to_an_agent_is_not_placed() -> None:
    broker = a_broker(base.BROKER_PER_CONFIGURATION, agent="a")
    (form,) = brokers_of("cam", broker, cameras("cam-1"), {}).values()
    assert (form["agent"], "placement" in form) == ("a", False)


@pytest.mark.parametrize(
    ("replicas", "quantity", "capacities", "distinct", "expected"),
    [
        (3, 1, [1, 1], base.DISTINCT_REQUIRED, 2),
        (3, 2, [2, 2], base.DISTINCT_REQUIRED, 2),
        (3, 2, [9], base.DISTINCT_REQUIRED, 0),
        (3, 2, [9], base.DISTINCT_PREFERRED, 3),
        (1, 1, [], base.DISTINCT_REQUIRED, 0),
        (10**9, 1, [1], base.DISTINCT_REQUIRED, 1),
    ],
)
def test_there_are_no_more_replicas_than_the_devices_can_serve(
    replicas: int, quantity: int, capacities: list[int], distinct: base.Distinct, expected: int
) -> None:
    """[utest->akri~broker-removed-with-device~1]"""
    broker = a_broker(base.BROKER_PER_CONFIGURATION, replicas=replicas, quantity=quantity, distinct=distinct)
    seen: dict[str, base.DeviceInstance] = {}
    for number, capacity in enumerate(capacities):
        seen |= cameras(f"cam-{number}", capacity=capacity)
    assert len(brokers_of("cam", broker, seen, {})) == expected


@pytest.mark.parametrize("strategy", [base.BROKER_PER_NODE, base.BROKER_PER_DEVICE, base.BROKER_PER_CONFIGURATION])
def test_brokers_are_removed_with_their_device_but_not_while_it_is_only_offline(strategy: base.BrokerStrategy) -> None:
    """[utest->akri~broker-removed-with-device~1]"""
    broker = a_broker(strategy)
    seen = cameras("cam-1")
    there = brokers_of("cam", broker, seen, {})
    seen["cam-1"].attributes.online = False
    assert brokers_of("cam", broker, seen, there) == there
    assert brokers_of("cam", broker, {}, there) == {}


def test_devices_of_other_configurations_do_not_matter() -> None:
    other = {"mic-1": base.DeviceInstance(configurationName="mic", nodes=["a"], capacity=1)}
    assert brokers_of("cam", a_broker(base.BROKER_PER_NODE), other, {}) == {}


def test_the_placeholder_selects_the_container_that_gets_the_device() -> None:
    requests = [
        base.ResourceRequest(name="mic", quantity=1),
        base.ResourceRequest(name="{{PLACEHOLDER}}", quantity=2, container="pod/web"),
    ]
    (form,) = brokers_of("cam", a_broker(base.BROKER_PER_NODE, resources=requests), cameras("cam-1"), {}).values()
    assert form["resources"] == [
        {"name": "mic", "quantity": 1},
        {"name": "akri.sh/cam-1", "quantity": 2, "container": "pod/web"},
    ]


def test_an_unknown_strategy_does_nothing() -> None:
    assert brokers_of("cam", a_broker(9), cameras("cam-1"), {}) == {}  # type: ignore[arg-type]


def test_a_long_name_is_shortened_and_stays_unique() -> None:
    names = {derived_name("c" * 60, node) for node in ("node-a", "node-b")}
    assert len(names) == 2
    assert {len(name) for name in names} == {63}
    assert derived_name("cam-1-job") == "cam-1-job"
