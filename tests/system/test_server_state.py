"""The desired states that the real server accepts and rejects, and rendered templates.

Needs: nothing but the repository.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.wire.peer import Conversation, Plain, ServerProcess

WEB = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: alpine:3"}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("-k") as process:
        yield process


@pytest.fixture
def cli(server: ServerProcess) -> Iterator[Conversation]:
    with server.cli() as peer:
        replace(peer, {})
        yield peer


def replace(cli: Conversation, workloads: Plain, configs: Plain | None = None, version: str = "v1") -> Plain:
    state: Plain = {"apiVersion": version, "workloads": {"workloads": workloads}, "configs": {"configs": configs or {}}}
    return cli.answer("u", updateStateRequest={"newState": {"desiredState": state}})


def desired(cli: Conversation) -> Plain:
    state = cli.answer("g", completeStateRequest={})["completeStateResponse"]["completeState"]
    found: Plain = state["desiredState"]["workloads"].get("workloads", {})
    return found


def effective_config(cli: Conversation, workload: str) -> str:
    mask = f"effectiveState.workloads.{workload}.runtimeConfig"
    state = cli.answer("g", completeStateRequest={"fieldMask": [mask]})["completeStateResponse"]["completeState"]
    text: str = state["effectiveState"]["workloads"]["workloads"][workload]["runtimeConfig"]
    return text


def rule(**content: Any) -> Plain:
    return {"controlInterfaceAccess": {"allowRules": [content]}}


@pytest.mark.parametrize(
    ("workloads", "configs", "why"),
    [
        pytest.param({"w.b": WEB}, {}, "Unsupported workload name 'w.b'.", id="workload name"),
        pytest.param({"w" * 64: WEB}, {}, "Length 64 exceeds the maximum limit of 63 characters.", id="long name"),
        pytest.param({"": WEB}, {}, "Unsupported workload name ''. Is empty.", id="empty name"),
        pytest.param({"web": {**WEB, "agent": "a b"}}, {}, "Unsupported agent name 'a b'.", id="agent name"),
        pytest.param({}, {"a b": {"String": "x"}}, "Unsupported config item key 'a b'.", id="config key"),
        pytest.param(
            {"web": {**WEB, "configs": {"configs": {"a b": "k"}}}}, {}, "Unsupported config alias 'a b'.", id="alias"
        ),
        pytest.param(
            {"web": {**WEB, "configs": {"configs": {"a": "k k"}}}}, {}, "Unsupported config reference key 'k k'.",
            id="reference",
        ),
        pytest.param(
            {"web": {**WEB, **rule(stateRule={"operation": "RW_READ", "filterMasks": [""]})}}, {},
            "Empty filter masks are not allowed in Control Interface access rules", id="filter mask",
        ),
    ],
)  # fmt: skip
def test_names_that_break_the_conventions_are_refused(
    cli: Conversation, workloads: Plain, configs: Plain, why: str
) -> None:
    """[stest->swdd~common-workload-naming-convention~1]
    [stest->swdd~common-agent-naming-convention~3]
    [stest->swdd~common-config-item-key-naming-convention~1]
    [stest->swdd~common-config-aliases-and-config-reference-keys-naming-convention~1]
    [stest->swdd~common-access-rules-filter-mask-convention~1]
    [stest->swdd~server-desired-state-field-conventions~1]
    """
    assert why in replace(cli, workloads, configs)["error"]["message"]
    assert desired(cli) == {}


@pytest.mark.parametrize("version", ["v9", "1", "v2"])
def test_a_wrong_api_version_is_refused(cli: Conversation, version: str) -> None:
    """[stest->swdd~update-desired-state-with-invalid-version~1]
    [stest->swdd~server-continues-on-invalid-updated-state~1]
    """
    message = replace(cli, {"web": WEB}, version=version)["error"]["message"]
    assert message == f"Unsupported API version. Received '{version}', expected 'v1'"
    assert desired(cli) == {}
    assert "UpdateStateSuccess" in replace(cli, {"web": WEB}), "the server continues"


def test_a_missing_api_version_is_refused(cli: Conversation) -> None:
    """[stest->swdd~update-desired-state-with-missing-version~1]"""
    message = replace(cli, {"web": WEB}, version="")["error"]["message"]
    assert message == "Unsupported API version. Received '', expected 'v1'"
    assert "UpdateStateSuccess" in replace(cli, {"web": WEB})


def test_dependencies_that_close_a_cycle_are_refused(cli: Conversation) -> None:
    """[stest->swdd~server-state-rejects-state-with-cyclic-dependencies~1]
    [stest->swdd~server-continues-on-invalid-updated-state~1]
    """
    needs_b = {**WEB, "dependencies": {"dependencies": {"b": "ADD_COND_RUNNING"}}}
    needs_a = {**WEB, "dependencies": {"dependencies": {"a": "ADD_COND_SUCCEEDED"}}}
    message = replace(cli, {"a": needs_b, "b": needs_a})["error"]["message"]
    assert message == "Update rejected: 'workload dependency 'a' is part of a cycle.'"
    assert "UpdateStateSuccess" in replace(cli, {"a": needs_b, "b": WEB})


def test_dependencies_on_missing_workloads_are_accepted(cli: Conversation) -> None:
    """[stest->swdd~cycle-detection-ignores-non-existing-workloads~1]"""
    needs = {**WEB, "dependencies": {"dependencies": {"later": "ADD_COND_RUNNING"}}}
    assert "UpdateStateSuccess" in replace(cli, {"web": needs})


def test_a_changed_config_changes_the_workloads_that_use_it(cli: Conversation) -> None:
    """[stest->swdd~server-state-compares-rendered-workloads~1]"""
    templated = {**WEB, "runtimeConfig": "level: {{lvl}}", "configs": {"configs": {"lvl": "level"}}}
    replace(cli, {"web": templated, "db": WEB}, {"level": {"String": "low"}})
    success = replace(cli, {"web": templated, "db": WEB}, {"level": {"String": "high"}})["UpdateStateSuccess"]
    assert [name.split(".")[0] for name in success["addedWorkloads"]] == ["web"]
    assert [name.split(".")[0] for name in success["deletedWorkloads"]] == ["web"]
    assert effective_config(cli, "web") == "level: high"
    assert desired(cli)["web"]["runtimeConfig"] == "level: {{lvl}}"
    same = replace(cli, {"web": templated, "db": WEB}, {"level": {"String": "high"}, "unused": {"String": "x"}})
    assert same == {"UpdateStateSuccess": {}}


def test_the_indent_of_a_line_is_kept_for_text_of_several_lines(cli: Conversation) -> None:
    """[stest->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]"""
    text = "f: |\n  {{> indent content=text}}\nz"
    replace(
        cli, {"web": {**WEB, "runtimeConfig": text, "configs": {"configs": {"text": "t"}}}}, {"t": {"String": "1\n2\n"}}
    )
    assert effective_config(cli, "web") == "f: |\n  1\n  2\nz"


def test_wildcards_in_field_masks_match_every_key_at_their_position(cli: Conversation) -> None:
    """[stest->swdd~server-filters-get-complete-state-result-with-wildcards~1]"""
    replace(cli, {"web": WEB, "db": {**WEB, "agent": "n2"}})
    masks = ["desiredState.workloads.*.agent", "workloadStates.*.db.*.state"]
    state = cli.answer("g", completeStateRequest={"fieldMask": masks})["completeStateResponse"]["completeState"]
    assert state["desiredState"] == {
        "apiVersion": "v1",
        "workloads": {"workloads": {"web": {"agent": "n1"}, "db": {"agent": "n2"}}},
    }
    assert list(state["workloadStates"]["agentStateMap"]) == ["n2"]


def test_a_large_state_is_stored_and_returned(cli: Conversation) -> None:
    many = {f"w{number}": {**WEB, "runtimeConfig": f"n: {number}"} for number in range(3000)}
    assert len(replace(cli, many)["UpdateStateSuccess"]["addedWorkloads"]) == 3000
    assert len(desired(cli)) == 3000
    assert len(replace(cli, {})["UpdateStateSuccess"]["deletedWorkloads"]) == 3000
