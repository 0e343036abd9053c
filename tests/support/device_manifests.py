"""Manifests with simulated cameras, for tests of devices."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster

CONFIGURATION = "akri-onvif"
FOO0, FOO1 = f"{CONFIGURATION}-8120fe", f"{CONFIGURATION}-a19705"
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]


def a_cluster(environ: Mapping[str, str] | None = None, shared: bool = True) -> Cluster:
    cluster = Cluster(environ)
    cluster.environ["DEBUG_ECHO_INSTANCES_SHARED"] = str(shared).lower()
    cluster.environ["DISCOVERY_HANDLERS_DIRECTORY"] = str(cluster.folder / "handlers")
    cluster.environ["DEBUG_ECHO_AVAILABILITY_FILE"] = str(cluster.folder / "availability")
    return cluster


def availability(cluster: Cluster) -> Path:
    return cluster.folder / "availability"


def cameras(*descriptions: str, capacity: int = 2, name: str = CONFIGURATION, **more: Any) -> dict[str, Any]:
    """A device configuration with one camera for each description."""
    details = f"descriptions: {json.dumps(list(descriptions))}"
    handler = {"name": "debugEcho", "discoveryDetails": details}
    return {"deviceConfigurations": {name: {"discoveryHandler": handler, "capacity": capacity, **more}}}


def native(command: Sequence[str] = SLEEP) -> dict[str, Any]:
    return {"runtime": "native", "runtimeConfig": json.dumps({"command": list(command)})}


def a_user(
    name: str, quantity: int = 1, agent: str = "node-a", resource: str = CONFIGURATION, **more: Any
) -> dict[str, Any]:
    """A workload that requests devices."""
    workload = {"agent": agent, "resources": [{"name": resource, "quantity": quantity}], **native(), **more}
    return {"workloads": {name: workload}}


def joined(*parts: Mapping[str, Any]) -> dict[str, Any]:
    manifest: dict[str, Any] = {"apiVersion": "v1"}
    for part in parts:
        for key, entries in part.items():
            manifest.setdefault(key, {}).update(entries)
    return manifest


def apply(cluster: Cluster, *parts: Mapping[str, Any]) -> None:
    path = cluster.write("devices.yaml", json.dumps(joined(*parts)))
    cluster.ank("--no-wait", "apply", str(path))


def delete(cluster: Cluster, *workloads: str) -> None:
    cluster.ank("delete", "workload", *workloads)


def usage(cluster: Cluster) -> dict[str, str]:
    """All slots of the cluster with their texts."""
    instances = cluster.state("deviceInstances").get("deviceInstances", {})
    return {slot: text for instance in instances.values() for slot, text in instance.get("deviceUsage", {}).items()}


def instances(cluster: Cluster) -> list[str]:
    return sorted(cluster.state("deviceInstances").get("deviceInstances", {}))


def users(cluster: Cluster) -> dict[str, str]:
    """Slots in use with the name of the workload that uses them."""
    found = cluster.state("deviceInstances").get("deviceInstances", {})
    return {
        slot: owner.split(".")[0]
        for instance in found.values()
        for slot, owner in instance.get("slotOwners", {}).items()
    }


def resources(cluster: Cluster, agent: str) -> dict[str, tuple[int, int]]:
    """Resource -> capacity and allocated devices."""
    attributes = cluster.state("agents")["agents"][agent]
    return {it["name"]: (it["capacity"], it["allocated"]) for it in attributes.get("resources", [])}
