"""Tables and descriptions of devices and resources."""

import io

from ankaios.cli.commands.describe_device import describe_device
from ankaios.cli.commands.describe_workload import describe_workload, exists
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.views.device_rows import agents_of, device_rows, resource_rows, slots_of, slots_used_by
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


def a_state() -> base.CompleteState:
    return COMPLETE_STATE.from_form(
        {
            "desiredState": {
                "apiVersion": "v1",
                "workloads": {
                    "web": {
                        "agent": "n1",
                        "runtime": "podman",
                        "restartPolicy": "ALWAYS",
                        "tags": {"owner": "me"},
                        "dependencies": {"db": "ADD_COND_RUNNING", "gone": "ADD_COND_SUCCEEDED"},
                        "resources": [{"name": "cam", "quantity": 2}],
                    }
                },
            },
            "workloadStates": {
                "n1": {
                    "web": {"1": {"state": "Pending", "subState": "StartingFailed", "additionalInfo": "no image"}},
                    "db": {"2": {"state": "Failed", "subState": "Lost", "additionalInfo": ""}},
                }
            },
            "agents": {
                "n2": {},
                "n1": {
                    "resources": [
                        {"name": "akri.sh/cam", "capacity": 3, "allocatable": 2, "allocated": 1},
                        {"name": "akri.sh/arm", "capacity": 1, "allocatable": 1, "allocated": 0},
                    ]
                },
            },
            "deviceInstances": {
                "cam-1a2b3c": {
                    "configurationName": "cam",
                    "cdiName": "akri.sh/cam=1a2b3c",
                    "capacity": 3,
                    "shared": True,
                    "nodes": ["n2", "n1"],
                    "deviceUsage": {"cam-1a2b3c-0": "C:0:n1", "cam-1a2b3c-1": "n2", "cam-1a2b3c-2": ""},
                    "slotOwners": {"cam-1a2b3c-0": "web.1.n1"},
                    "brokerProperties": {"URL": "rtsp://x"},
                    "attributes": {
                        "id": "x",
                        "online": True,
                        "deviceSpecs": [{"containerPath": "/dev/v", "hostPath": "/dev/v0", "permissions": "rw"}],
                    },
                },
                "cam-ffffff": {"configurationName": "cam", "capacity": 2, "nodes": ["n1"]},
            },
        }
    )


def test_devices_show_the_used_slots_and_their_users() -> None:
    assert device_rows(a_state().deviceInstances) == [
        ("cam-1a2b3c", "cam", "n1, n2", "2", "1", "n2, web"),
        ("cam-ffffff", "cam", "n1", "0", "2", ""),
    ]


def test_agents_that_do_not_see_a_device_are_marked() -> None:
    instance = base.DeviceInstance(nodes=["n2", "n1"], onlineNodes=["n1"], attributes={"online": True})
    assert agents_of(instance) == ["n1", "n2 (offline)"]
    instance = base.DeviceInstance(nodes=["n1"], lost=True, attributes={"online": False}, offlineSinceMs=0)
    assert agents_of(instance) == ["n1 (lost)"]
    text = describe_device("cam-1", instance).text(in_a_pipe())
    assert "no, since 1970-01-01 00:00:00 UTC, lost" in text


def test_unused_slots_are_listed_too_in_order_of_their_number() -> None:
    instance = base.DeviceInstance(capacity=11)
    assert [slot.name for slot in slots_of("d", instance)] == [f"d-{index}" for index in range(11)]


def test_slots_have_agent_and_owner() -> None:
    slots = slots_of("cam-1a2b3c", a_state().deviceInstances.deviceInstances["cam-1a2b3c"])
    assert [slot.cells() for slot in slots] == [
        ("cam-1a2b3c-0", "n1", "web"),
        ("cam-1a2b3c-1", "n2", "unknown"),
        ("cam-1a2b3c-2", "", "free"),
    ]


def test_resources_are_listed_by_agent_and_name() -> None:
    assert resource_rows(a_state().agents) == [
        ("n1", "akri.sh/arm", "1", "1", "0"),
        ("n1", "akri.sh/cam", "3", "2", "1"),
    ]


def test_the_slots_of_a_workload_are_listed() -> None:
    assert slots_used_by("web", a_state().deviceInstances) == [("cam-1a2b3c", "cam", "cam-1a2b3c-0", "n1")]


def in_a_pipe() -> CliOutput:
    return CliOutput(io.StringIO(), io.StringIO(), {})


def test_a_described_workload_has_state_reason_dependencies_and_devices() -> None:
    assert describe_workload("web", a_state()).text(in_a_pipe()) == (
        "Workload:    web\n"
        "Agent:       n1\n"
        "Runtime:     podman\n"
        "Restarts:    ALWAYS\n"
        "Tags:        owner=me\n"
        "Resources:   2 x cam\n"
        "Instance:    web.1.n1\n"
        "State:       Pending(StartingFailed)\n"
        "Reason:      no image\n"
        "\n"
        "Dependencies:\n"
        "  WORKLOAD   NEEDED               IS            \n"
        "  db         ADD_COND_RUNNING     Failed(Lost)  \n"
        "  gone       ADD_COND_SUCCEEDED   does not exist\n"
        "\n"
        "Devices:\n"
        "  DEVICE       CONFIGURATION   SLOT           AGENT\n"
        "  cam-1a2b3c   cam             cam-1a2b3c-0   n1   "
    )


def test_the_description_of_a_workload_that_waits_for_its_agent() -> None:
    state = a_state()
    state.agents.Clear()
    assert "State:      Failed(Lost)\nReason:     agent 'n1' is not connected" in describe_workload("db", state).text(
        in_a_pipe()
    )


def test_the_description_of_a_workload_that_is_being_deleted() -> None:
    assert exists("db", a_state()) and not exists("x", a_state())
    assert describe_workload("db", a_state()).text(in_a_pipe()) == (
        "Workload:   db\nNote:       not desired any more, not removed yet\n"
        "Instance:   db.2.n1\nState:      Failed(Lost)"
    )


def test_a_described_device_has_slots_properties_and_nodes() -> None:
    instance = a_state().deviceInstances.deviceInstances["cam-1a2b3c"]
    assert describe_device("cam-1a2b3c", instance).text(in_a_pipe()) == (
        "Device:          cam-1a2b3c\n"
        "Configuration:   cam\n"
        "CDI name:        akri.sh/cam=1a2b3c\n"
        "Agents:          n1, n2\n"
        "Shared:          yes\n"
        "Online:          yes\n"
        "Slots:           3, 2 used, 1 free\n"
        "\n"
        "Slots:\n"
        "  SLOT           AGENT   USED BY\n"
        "  cam-1a2b3c-0   n1      web    \n"
        "  cam-1a2b3c-1   n2      unknown\n"
        "  cam-1a2b3c-2           free   \n"
        "\n"
        "Properties:\n"
        "  NAME   VALUE   \n"
        "  URL    rtsp://x\n"
        "\n"
        "Device nodes:\n"
        "  IN CONTAINER   ON HOST   PERMISSIONS\n"
        "  /dev/v         /dev/v0   rw         "
    )
