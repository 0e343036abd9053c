"""Output of `podman ps` is read even if single values are invalid."""

import json

import pytest

from ankaios.common.execution_state import FAILED_UNKNOWN, RUNNING_OK, SUCCEEDED_OK, exited
from ankaios.common.workload import InstanceName
from ankaios.runtimes.podman.listing import parse_listing
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.unit.runtimes.recording_cli import a_container

NAME = InstanceName("web", "abc", "agent_A")
LABELS = {"name": str(NAME), "agent": "agent_A"}


def test_containers_are_found_by_id_by_agent_by_instance_and_by_pod() -> None:
    """[utest->swdd~podmancli-container-state-cache-all-containers~1]
    [utest->swdd~podman-get-workload-id-uses-label~1]
    [utest->swdd~podman-list-of-existing-workloads-uses-labels~1]
    """
    text = json.dumps([a_container("c1", Labels=LABELS), a_container("c2"), a_container("c3", Pod="p1", IsInfra=True)])
    listing = parse_listing(text)
    assert set(listing.by_id) == {"c1", "c2", "c3"}
    assert [container.id for container in listing.of_agent("agent_A")] == ["c1"]
    assert [container.id for container in listing.of_instance(NAME)] == ["c1"]
    assert listing.by_id["c1"].instance_name == NAME
    assert [container.infra for container in listing.of_pod("p1")] == [True]
    assert listing.pods() == {"p1"}
    assert listing.of_agent("A") == listing.of_pod("p2") == listing.of_instance(InstanceName("a", "b", "c")) == []


@pytest.mark.parametrize(
    "odd",
    [
        {"ExitCode": "3"},
        {"ExitCode": -1},
        {"ExitCode": 2**40},
        {"ExitCode": True},
        {"Labels": []},
        {"Labels": {"name": 3}},
        {"Pod": None},
        {"Pid": "12"},
        {"Pid": -5},
        {"State": None},
        {"Names": "web"},
    ],
)
def test_one_invalid_value_does_not_affect_the_other_entries(odd: dict[str, object]) -> None:
    listing = parse_listing(json.dumps([a_container("c1") | odd, a_container("c2")]))
    assert set(listing.by_id) == {"c1", "c2"}
    assert listing.by_id["c2"].state == RUNNING_OK


def test_an_invalid_exit_code_is_no_exit_code() -> None:
    listing = parse_listing(
        json.dumps([a_container("c1", "exited", ExitCode="zero"), a_container("c2", "exited", ExitCode=256)])
    )
    assert listing.by_id["c1"].state == FAILED_UNKNOWN.because("exited")
    assert listing.by_id["c2"].state == exited(256)


def test_entries_that_are_no_containers_are_ignored() -> None:
    listing = parse_listing(json.dumps([3, {}, {"Id": ""}, {"Id": 4}, a_container("c1"), None]))
    assert set(listing.by_id) == {"c1"}


def test_a_name_that_is_no_instance_name_is_ignored() -> None:
    listing = parse_listing(json.dumps([a_container("c1", Labels={"name": "web", "agent": "agent_A"})]))
    assert listing.by_id["c1"].instance_name is None


@pytest.mark.parametrize("text", ["[]", "null", "[]\n"])
def test_no_containers_are_an_empty_list(text: str) -> None:
    assert parse_listing(text).by_id == {}


@pytest.mark.parametrize("text", ["", "garbage", "{}", "[", '"text"', "[" * 100_000])
def test_output_that_is_no_list_is_an_error(text: str) -> None:
    with pytest.raises(RuntimeFailed, match="cannot read the list of containers"):
        parse_listing(text)


def test_a_container_that_ran_when_the_power_failed_has_no_exit_code() -> None:
    """Otherwise it would count as a job that has succeeded."""
    entry = {"Id": "a", "State": "exited", "ExitCode": 0, "StartedAt": 1794999582, "ExitedAt": -62135596800}
    assert parse_listing(json.dumps([entry])).by_id["a"].state == FAILED_UNKNOWN.because("exited")
    ended = {**entry, "ExitedAt": 1794999582}
    assert parse_listing(json.dumps([ended])).by_id["a"].state == SUCCEEDED_OK
