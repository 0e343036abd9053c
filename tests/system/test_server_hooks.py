"""Mutating hooks as real programs of the real server."""

import sys
from collections.abc import Iterator

import pytest

from tests.system.wire.peer import ServerProcess, message_class

WEB = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: alpine:3"}
MASK = "desiredState.workloads.web"
MANIFEST = 'apiVersion: v1\nworkloads:\n  web: {agent: n1, runtime: podman, runtimeConfig: "image: alpine:3"}\n'
# Waits until it is told to go on, by a file.
SLOW = "#!/bin/sh\nwhile [ ! -e '{gate}' ]; do sleep 0.05; done\ncat\n"
MOVE = f"""#!{sys.executable}
import sys
sys.stdout.buffer.write(sys.stdin.buffer.read().replace(b"n1", b"n2"))
"""


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    process = ServerProcess("-k")
    yield process
    process.__exit__(None, None, None)


def with_hook(server: ServerProcess, text: str, *more: str) -> list[str]:
    hook = server.folder / "hook"
    hook.write_text(text)
    hook.chmod(0o755)
    config = f"version = 'v1'\n[[mutating_hooks]]\nname = 'hook'\npath = '{server.folder}'\n"
    return ["-x", server.write("c.conf", config), *more]


def update(**workloads: object) -> dict[str, object]:
    state = {"desiredState": {"apiVersion": "v1", "workloads": {"workloads": workloads}}}
    return {"newState": state, "updateMask": [MASK]}


def test_a_hook_may_move_a_workload_to_another_agent(server: ServerProcess) -> None:
    server.start(*with_hook(server, MOVE))
    with server.agent("n2") as agent, server.cli() as cli:
        agent.receive()
        success = cli.answer("u", updateStateRequest=update(web=WEB))["UpdateStateSuccess"]
        assert success["addedWorkloads"][0].endswith(".n2")
        assert agent.receive()["updateWorkload"]["addedWorkloads"][0]["workload"]["agent"] == "n2"
        again = cli.answer("u", updateStateRequest=update(web=WEB))
        assert again == {"UpdateStateSuccess": {}}, "what is compared is what was written"


def test_a_hook_may_refuse(server: ServerProcess) -> None:
    server.start(*with_hook(server, "#!/bin/sh\ncat >/dev/null\necho no web here >&2\nexit 1\n"))
    with server.cli() as cli:
        answer = cli.answer("u", updateStateRequest=update(web=WEB))
        text = "Update rejected by mutating hook 'hook': 'Hook 'hook' rejected the change: no web here'"
        assert answer == {"error": {"message": text}}


def test_a_hook_may_refuse_the_start(server: ServerProcess) -> None:
    arguments = with_hook(server, "#!/bin/sh\ncat >/dev/null\necho no >&2\nexit 1\n", "-m", server.write("m", MANIFEST))
    assert server.run_to_end(*arguments) == 1
    text = "server error: 'Mutating hook 'hook' vetoed the state change: 'Hook 'hook' rejected the change: no''"
    assert text in server.log


def test_a_hook_sees_the_startup_manifest(server: ServerProcess) -> None:
    server.start(*with_hook(server, MOVE, "-m", server.write("m", MANIFEST)))
    with server.agent("n2") as agent:
        hello = agent.receive()
        while "serverHello" not in hello:
            hello = agent.receive()
        assert hello["serverHello"]["addedWorkloads"][0]["instanceName"]["workloadName"] == "web"


def test_while_a_hook_thinks_others_are_served(server: ServerProcess) -> None:
    gate = server.folder / "gate"
    server.start(*with_hook(server, SLOW.format(gate=gate)))
    with server.cli() as cli, server.cli() as other:
        cli.ask("slow", updateStateRequest=update(web=WEB))
        other.ask("queued", updateStateRequest=update())
        state = other.answer("read", completeStateRequest={"fieldMask": ["desiredState"]})
        assert state["completeStateResponse"]["completeState"]["desiredState"]["workloads"] == {}
        gate.touch()
        assert len(cli.receive_response()["UpdateStateSuccess"]["addedWorkloads"]) == 1
        assert len(other.receive_response()["UpdateStateSuccess"]["deletedWorkloads"]) == 1


def test_the_update_shown_to_a_hook_is_that_of_the_tables(server: ServerProcess) -> None:
    seen = server.folder / "seen"
    server.start(*with_hook(server, f"#!/bin/sh\ntee '{seen}'\n"))
    with server.cli() as cli:
        cli.answer("u", updateStateRequest=update(web=WEB))
    shown = message_class("grpc_api.UpdateWorkload").FromString(seen.read_bytes())
    assert shown.addedWorkloads[0].workload.runtimeConfig == "image: alpine:3"  # type: ignore[attr-defined]
