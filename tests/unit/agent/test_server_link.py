"""The pauses of an agent before it reconnects, and the final states that it sends again after a broken connection."""

import asyncio
import sys

import pytest

from ankaios.agent.server_link import DELIVERED_AFTER, MAX_FINAL_STATES, Outbox, agent_hello, reconnect_pause
from ankaios.common.execution_state import REMOVED
from ankaios.common.pb.grpc_api_pb2 import ToServer, UpdateWorkloadState
from ankaios.common.proto_conversion import workload_state_to_pb
from ankaios.simulation.virtual_time import VirtualTimeLoop
from tests.support.builders import an_instance


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.02), (2, 0.04), (3, 0.08), (6, 0.64), (7, 1.0), (10_000, 1.0)])
def test_the_pause_doubles_from_20_milliseconds_to_a_second(failures: int, pause: float) -> None:
    assert reconnect_pause(failures) == pytest.approx(pause)


def test_the_hello_requests_only_the_states_of_dependencies() -> None:
    assert agent_hello("agent_A", {}, ["podman"], devices=True).agentHello.dependencyStatesOnly


async def send_final_state(outbox: Outbox, workload: str) -> ToServer:
    name = an_instance(workload)
    message = ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[workload_state_to_pb(name, REMOVED)]))
    outbox.put_state(name, message, is_last=True)
    return await outbox.take()


async def sent_again(outbox: Outbox) -> list[str]:
    """The connection breaks; returns what the agent sends after it has reconnected."""
    outbox.go_offline()
    outbox.go_online()
    outbox.put(ToServer())
    found = []
    while (message := await outbox.take()).HasField("updateWorkloadState"):
        found += [state.instanceName.workloadName for state in message.updateWorkloadState.workloadStates]
    return found


def test_a_final_state_is_sent_again_if_the_connection_breaks_soon_after_it() -> None:
    async def scenario() -> None:
        outbox = Outbox()
        outbox.go_online()
        await send_final_state(outbox, "early")
        await asyncio.sleep(DELIVERED_AFTER)
        await send_final_state(outbox, "late")
        assert await sent_again(outbox) == ["late"]

    VirtualTimeLoop().run_until_complete(scenario())


def test_a_delivered_final_state_is_not_kept() -> None:
    async def scenario() -> None:
        outbox = Outbox()
        outbox.go_online()
        message = await send_final_state(outbox, "early")
        kept = sys.getrefcount(message)
        await asyncio.sleep(DELIVERED_AFTER)
        await send_final_state(outbox, "late")
        assert sys.getrefcount(message) == kept - 1

    VirtualTimeLoop().run_until_complete(scenario())


def test_the_number_of_final_states_is_limited() -> None:
    async def scenario() -> None:
        outbox = Outbox()
        outbox.go_online()
        for number in range(MAX_FINAL_STATES + 10):
            await send_final_state(outbox, f"w{number}")
        names = await sent_again(outbox)
        assert MAX_FINAL_STATES - 1 <= len(names) <= MAX_FINAL_STATES
        assert names[-1] == f"w{MAX_FINAL_STATES + 9}"

    VirtualTimeLoop().run_until_complete(scenario())
