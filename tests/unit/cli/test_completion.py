"""The candidates at each position of the line."""

from collections.abc import Iterable

import pytest

from ankaios.cli.command_line.completion import FILES, CursorContext, candidates
from ankaios.cli.command_line.completion_values import known_values, names_of, possible_masks
from ankaios.cli.tree.ank import ANK
from ankaios.common.model.state import COMPLETE_STATE

COMMANDS = [command.name for command in ANK.children]


def lookup(kind: str, context: CursorContext) -> Iterable[str]:
    return [f"{kind}-1", f"{kind}-2"]


def offered(line: str) -> list[str]:
    *before, current = line.split(" ")
    return [word for word, _ in candidates(before, current, lookup)]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", COMMANDS),
        ("ge", ["get"]),
        ("-k --server-url http://x ge", ["get"]),
        ("get w", ["workload"]),
        ("get workloads", ["workloads"]),
        ("get workload --s", ["--state"]),
        ("get workload --agent ", ["agents-1", "agents-2"]),
        ("get workload --agent =", ["agents-1", "agents-2"]),
        ("get workload --agent = agents-2", ["agents-2"]),
        ("get workload --watch --w", []),
        ("get workload ", ["workloads-1", "workloads-2"]),
        ("get workload workloads-1 ", ["workloads-2"]),
        ("get state -o j", ["json"]),
        ("get state ", ["masks-1", "masks-2"]),
        ("set state ", ["masks-1", "masks-2"]),
        ("set state masks-1 ", ["masks-2", FILES]),
        ("apply ", [FILES]),
        ("apply -d x", [FILES]),
        ("delete config c", ["configs-1", "configs-2"]),
        ("delete device-configuration d", ["deviceConfigurations-1", "deviceConfigurations-2"]),
        ("describe device ", ["devices-1", "devices-2"]),
        ("describe device devices-1 ", []),
        ("run workload ", []),
        ("run workload x --tags a=b --t", ["--tags"]),
        ("logs -- w", ["workloads-1", "workloads-2"]),
        ("nonsense ", COMMANDS),
    ],
)
def test_candidates_fit_the_position(line: str, wanted: list[str]) -> None:
    assert offered(line) == wanted


def test_global_options_of_the_line_are_used_for_the_request() -> None:
    context = CursorContext()
    for word in ["-k", "--server-url", "http://x", "logs"]:
        context.add(word)
    values = context.global_values()
    assert (values["insecure"], values["server_url"]) == (True, "http://x")


def test_values_come_from_the_state() -> None:
    running = {"state": "Running", "subState": "Ok", "additionalInfo": ""}
    state = COMPLETE_STATE.from_form(
        {
            "desiredState": {"apiVersion": "v1", "workloads": {"w": {}}, "configs": {"c": "x"}},
            "workloadStates": {"a": {"w": {"1": running}}},
            "agents": {"a": {}},
            "deviceInstances": {"d": {}},
        }
    )
    assert [names_of(kind, state) for kind in ("workloads", "configs", "agents", "devices")] == [
        ["w"],
        ["c"],
        ["a"],
        ["d"],
    ]
    assert possible_masks(state) == [
        *("desiredState", "desiredState.workloads", "desiredState.configs", "workloadStates", "agents"),
        *("desiredState.workloads.w", "desiredState.configs.c"),
        *("workloadStates.a", "workloadStates.a.w", "agents.a", "agents.a.status", "agents.a.tags"),
        "deviceInstances.d",
    ]


def test_fixed_values_need_no_server() -> None:
    assert "podman" in known_values("runtimes", {})
    states = list(known_values("states", {}))
    assert {"Running(Ok)", "Pending(WaitingToStart)", "NotScheduled"} <= set(states)
    assert "Removed" not in states  # the server removes such a row
