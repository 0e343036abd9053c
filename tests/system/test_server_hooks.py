"""Mutating hooks as real programs of the real server.

Needs: nothing but the repository.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.wire.peer import TIME_LIMIT, ServerProcess, message_class

WEB = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: alpine:3"}
MASK = "desiredState.workloads.web"
MANIFEST = 'apiVersion: v1\nworkloads:\n  web: {agent: n1, runtime: podman, runtimeConfig: "image: alpine:3"}\n'
# Creates a file when it starts, and waits until another file exists.
SLOW = "#!/bin/sh\necho $$ > '{gate}.new'\nmv '{gate}.new' '{gate}.pid'\n"
SLOW += "while [ ! -e '{gate}' ]; do sleep 0.05; done\ncat\n"
MOVE = f"""#!/usr/bin/env -S '{sys.executable}'
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


def began(gate: Path) -> int:
    """Wait for the slow hook; return its process id."""
    until(gate.with_name("gate.pid").exists)
    return int(gate.with_name("gate.pid").read_text())


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIME_LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_over(group: int) -> bool:
    """The hook and all its descendants."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


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
        assert again == {"UpdateStateSuccess": {}}, "the requested state is compared, not the result of the hook"


def test_a_hook_may_reject_an_update(server: ServerProcess) -> None:
    server.start(*with_hook(server, "#!/bin/sh\ncat >/dev/null\necho no web here >&2\nexit 1\n"))
    with server.cli() as cli:
        answer = cli.answer("u", updateStateRequest=update(web=WEB))
        text = "Update rejected by mutating hook 'hook': 'Hook 'hook' rejected the change: no web here'"
        assert answer == {"error": {"message": text}}


def test_a_hook_may_reject_the_startup_manifest(server: ServerProcess) -> None:
    arguments = with_hook(server, "#!/bin/sh\ncat >/dev/null\necho no >&2\nexit 1\n", "-m", server.write("m", MANIFEST))
    assert server.run_to_end(*arguments) == 1
    text = "server error: 'Mutating hook 'hook' vetoed the state change: 'Hook 'hook' rejected the change: no''"
    assert text in server.log


def test_a_hook_receives_the_startup_manifest(server: ServerProcess) -> None:
    server.start(*with_hook(server, MOVE, "-m", server.write("m", MANIFEST)))
    with server.agent("n2") as agent:
        hello = agent.receive()
        while "serverHello" not in hello:
            hello = agent.receive()
        assert hello["serverHello"]["addedWorkloads"][0]["instanceName"]["workloadName"] == "web"


def test_other_requests_are_served_while_a_hook_runs(server: ServerProcess) -> None:
    gate = server.folder / "gate"
    server.start(*with_hook(server, SLOW.format(gate=gate)))
    with server.cli() as cli, server.cli() as other:
        cli.send_request("slow", updateStateRequest=update(web=WEB))
        began(gate)
        other.send_request("queued", updateStateRequest=update())
        state = other.answer("read", completeStateRequest={"fieldMask": ["desiredState"]})
        assert state["completeStateResponse"]["completeState"]["desiredState"]["workloads"] == {}
        gate.touch()
        assert len(cli.receive_response()["UpdateStateSuccess"]["addedWorkloads"]) == 1
        assert len(other.receive_response()["UpdateStateSuccess"]["deletedWorkloads"]) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_hook_ends_with_the_server(server: ServerProcess, number: signal.Signals) -> None:
    """For each way to end the server; it does not wait for the hook."""
    gate = server.folder / "gate"
    server.start(*with_hook(server, SLOW.format(gate=gate)))
    with server.cli() as cli:
        cli.send_request("slow", updateStateRequest=update(web=WEB))
        hook = began(gate)
        assert server.stop(number) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
        until(lambda: is_over(hook))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_waits_for_hooks_at_its_start_ends_immediately_after_a_signal(
    server: ServerProcess, number: int
) -> None:
    gate = server.folder / "gate"
    server.launch(*with_hook(server, SLOW.format(gate=gate), "-m", server.write("m", MANIFEST)))
    hook = began(gate)
    assert server.stop(number) == 0
    until(lambda: is_over(hook))
    assert "ends before it was ready" in server.log
    assert "is ready on port" not in server.log


def test_the_update_sent_to_a_hook_follows_the_tables_of_the_protocol(server: ServerProcess) -> None:
    seen = server.folder / "seen"
    server.start(*with_hook(server, f"#!/bin/sh\ntee '{seen}'\n"))
    with server.cli() as cli:
        cli.answer("u", updateStateRequest=update(web=WEB))
    shown = message_class("grpc_api.UpdateWorkload").FromString(seen.read_bytes())
    assert shown.addedWorkloads[0].workload.runtimeConfig == "image: alpine:3"  # type: ignore[attr-defined]
