import json

import pytest

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.grants import (
    Allocated,
    GrantedDevice,
    broker_properties,
    check_grant,
    devices_file_text,
    grants_for,
    merge_grants,
    slot_annotation,
)
from ankaios.devices.core.inventory import Instance
from ankaios.devices.core.slot_ledger import Slot


def grant_for(*devices: GrantedDevice) -> DeviceGrant:
    grant, conflicts = merge_grants(grants_for(devices), None)
    assert conflicts == []
    return grant


def a_camera(device_id: str, number: int, virtual_id: str | None = None, **configured: str) -> GrantedDevice:
    device = DiscoveredDevice(
        device_id,
        {"URL": f"http://{device_id}"},
        (DeviceMount(f"/mnt/{device_id}", f"/srv/{device_id}", True), DeviceMount("/mnt/all", "/srv/all")),
        (DeviceNode(f"/dev/{device_id}", f"/dev/{device_id}", "rw"),),
    )
    instance = Instance.of("cam", device, True, "node-a")
    return GrantedDevice(instance, Slot(instance.name, number), virtual_id, configured)


def test_a_plain_name_exists_only_if_exactly_one_of_all_devices_defines_it() -> None:
    """Also if the devices belong to different configurations; a value of a configuration counts once."""

    def granted(id_: str, configuration: str, configured: dict[str, str], **properties: str) -> GrantedDevice:
        instance = Instance.of(configuration, DiscoveredDevice(id_, properties), True, "n")
        return GrantedDevice(instance, Slot(instance.name, 0), "0", configured)

    rate = {"RATE": "30"}
    cameras = [granted("foo0", "cam", rate, URL="a", ONLY="x"), granted("foo1", "cam", rate, URL="b")]
    envs = grant_for(*cameras).envs
    assert (envs.get("URL"), envs["ONLY"], envs["RATE"]) == (None, "x", "30")
    assert (envs["URL_8120FE"], envs["URL_A19705"]) == ("a", "b")
    other = granted("foo2", "mic", {}, URL="c", RATE="44")
    assert grant_for(cameras[0], other).envs.keys() & {"URL", "ONLY", "RATE"} == {"ONLY"}


def test_the_slot_annotation_names_the_slot_and_how_it_was_claimed() -> None:
    """Akri 0.12 writes the node instead, 0.13 nothing. [utest->akri~slot-annotation-format~1]"""
    camera = GrantedDevice(a_camera("foo0", 0).instance, Slot("my-resource-00095f", 3))
    assert slot_annotation(camera) == ("akri.agent.slot-my-resource-00095f-3", "my-resource-00095f-3")
    camera = GrantedDevice(camera.instance, Slot("my-resource-00095f", 2), "0")
    assert slot_annotation(camera) == ("akri.agent.slot-my-resource-00095f-2", "C:0:my-resource-00095f-2")


def test_a_single_device_gives_its_properties_with_and_without_suffix() -> None:
    assert grant_for(a_camera("foo0", 0)).envs == {"URL": "http://foo0", "URL_8120FE": "http://foo0"}


def test_several_devices_give_their_properties_with_suffix_only() -> None:
    envs = grant_for(a_camera("foo0", 0), a_camera("foo1", 1)).envs
    assert envs == {"URL_8120FE": "http://foo0", "URL_A19705": "http://foo1"}


def test_every_user_receives_the_properties_of_the_configuration() -> None:
    envs = grant_for(a_camera("foo0", 0, RATE="30"), a_camera("foo1", 1, RATE="30")).envs
    assert envs["RATE"] == envs["RATE_8120FE"] == envs["RATE_A19705"] == "30"


def test_properties_of_the_configuration_override_those_of_the_handler() -> None:
    assert broker_properties(a_camera("foo0", 0).instance, {"URL": "mine"}) == {"URL": "mine"}


def test_mounts_and_nodes_of_all_devices_are_in_one_answer() -> None:
    """Akri 0.13 gives one answer per device, of which a kubelet reads the first."""
    grant = grant_for(a_camera("foo0", 0, "0"), a_camera("foo1", 1, "1"))
    assert [mount.container_path for mount in grant.mounts] == ["/mnt/foo0", "/mnt/all", "/mnt/foo1"]
    assert [node.container_path for node in grant.devices] == ["/dev/foo0", "/dev/foo1"]
    assert grant.annotations == {
        "akri.agent.slot-cam-8120fe-0": "C:0:cam-8120fe-0",
        "akri.agent.slot-cam-a19705-1": "C:1:cam-a19705-1",
    }


def test_of_several_plugins_the_first_one_is_used_and_conflicts_are_reported() -> None:
    first = DeviceGrant({"A": "1"}, (DeviceMount("/m", "/1"),), (DeviceNode("/d", "/1"),), {"k": "1"}, ("v/c=1",))
    second = DeviceGrant(
        {"A": "2", "B": "2"}, (DeviceMount("/m", "/2"),), (DeviceNode("/d", "/2"),), {"k": "2"}, ("v/c=1", "v/c=2")
    )
    together, conflicts = merge_grants([first, second], "pod/web")
    assert together == DeviceGrant(
        {"A": "1", "B": "2"},
        (DeviceMount("/m", "/1"),),
        (DeviceNode("/d", "/1"),),
        {"k": "1"},
        ("v/c=1", "v/c=2"),
        "pod/web",
    )
    assert [conflict.split(" '")[0] for conflict in conflicts] == [
        "environment variable",
        "annotation",
        "mount",
        "device node",
    ]


def test_the_devices_file_contains_the_complete_grant() -> None:
    camera = a_camera("foo0", 1, "4")
    grant = grant_for(camera)
    text = devices_file_text("web.abc.node-a", grant, [Allocated("akri.sh/cam", ("4",), (camera,))])
    content = json.loads(text)
    assert content["workload"] == "web.abc.node-a"
    assert content["environment"] == grant.envs
    assert content["annotations"] == {"akri.agent.slot-cam-8120fe-1": "C:4:cam-8120fe-1"}
    assert content["deviceSpecs"] == [{"containerPath": "/dev/foo0", "hostPath": "/dev/foo0", "permissions": "rw"}]
    assert content["resources"][0]["name"] == "akri.sh/cam"
    assert content["resources"][0]["devices"][0]["slot"] == "cam-8120fe-1"
    assert content["resources"][0]["devices"][0]["properties"] == {"URL": "http://foo0"}
    assert content["resources"][0]["devices"][0]["cdiName"] == "akri.sh/cam=8120fe"


def test_parts_that_any_runtime_supports_are_used_from_a_plugin() -> None:
    grant = DeviceGrant(
        {"A.b": "x=y"}, (DeviceMount("/c", "/h"),), (DeviceNode("/c", "/h", "r"),), {"a/b": ""}, ("v/c=d",)
    )
    check_grant(grant)


@pytest.mark.parametrize(
    "grant",
    [
        DeviceGrant({"": "x"}),
        DeviceGrant({"A=B": "x"}),
        DeviceGrant({"A": "\0"}),
        DeviceGrant(annotations={"a\0": ""}),
        DeviceGrant(mounts=(DeviceMount("relative", "/h"),)),
        DeviceGrant(mounts=(DeviceMount("/c", "/h\0"),)),
        DeviceGrant(devices=(DeviceNode("/c", ""),)),
        DeviceGrant(devices=(DeviceNode("/c", "/h", "rx"),)),
        DeviceGrant(cdi_devices=("",)),
    ],
)
def test_parts_that_no_runtime_supports_are_rejected(grant: DeviceGrant) -> None:
    with pytest.raises(ValueError):
        check_grant(grant)
