"""Log campaigns of an agent."""

import asyncio

from ankaios.common.execution_state import SUCCEEDED_OK
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, LogsCancelRequest, LogsRequest, ToServer
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload
from tests.unit.agent.harness import AgentScenario, an_agent, server_hello, update_workload

WEB = a_workload("web", "A")


def logs_request(request_id: str, *names: str, follow: bool = False, **more: object) -> FromServer:
    workloads = [base.WorkloadInstanceName(workloadName=name, agentName="A", id="given") for name in names]
    request = base.LogsRequest(workloadNames=workloads, follow=follow, **more)  # type: ignore[arg-type]
    return FromServer(logsRequest=LogsRequest(requestId=request_id, logsRequest=request))


def logs_cancel_request(request_id: str) -> FromServer:
    return FromServer(logsCancelRequest=LogsCancelRequest(requestId=request_id))


def line(message: ToServer) -> str:
    if message.HasField("logsStopResponse"):
        stop = message.logsStopResponse
        return f"{stop.requestId}: {stop.logsStopResponse.workloadName.workloadName} stop"
    entries = message.logEntriesResponse
    texts = [
        f"{e.workloadName.workloadName}.{e.workloadName.id} {e.message}" for e in entries.logEntriesResponse.logEntries
    ]
    return f"{entries.requestId}: {texts}"


async def logs(scenario: AgentScenario) -> list[str]:
    kinds = ("logsStopResponse", "logEntriesResponse")
    return [line(message) for message in await scenario.messages() if message.WhichOneof("ToServerEnum") in kinds]


async def test_output_becomes_entries_and_its_end_a_stop() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        web = a.podman.named("web").id
        for piece in (b"one\ntwo\nthr", b"ee\nlast"):
            a.podman.print(web, piece)
        a.manager.handle(logs_request("r@1", "web"))
        assert await logs(a) == [
            "r@1: ['web.given one', 'web.given two']",
            "r@1: ['web.given three']",
            "r@1: ['web.given last']",
            "r@1: web stop",
        ]


async def test_a_workload_without_logs_is_answered_immediately() -> None:
    waits = a_workload("waits", "A", runtime="vm")
    async with an_agent() as a:
        await a.handle(server_hello(WEB, waits))
        a.podman.has_logs = False
        a.manager.handle(logs_request("1", "unknown", "waits", "web"))
        why = "The fake runtime has no logs"
        assert await logs(a) == ["1: unknown stop", "1: waits stop", f"1: ['web.given {why}']", "1: web stop"]


async def test_following_continues_until_the_workload_ends() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        web = a.podman.named("web").id
        a.manager.handle(logs_request("1", "web", follow=True))
        a.manager.handle(logs_request("2", "web", follow=True))
        a.podman.print(web, b"hello\n")
        assert sorted(await logs(a)) == ["1: ['web.given hello']", "2: ['web.given hello']"]
        a.manager.handle(logs_cancel_request("2"))
        a.manager.handle(logs_cancel_request("unknown"))
        a.podman.print(web, b"again\n")
        assert await logs(a) == ["1: ['web.given again']"]
        a.podman.set_state(web, SUCCEEDED_OK)
        assert await logs(a) == ["1: web stop"]


async def test_a_request_with_a_known_id_replaces_the_previous_one() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        web = a.podman.named("web").id
        for _ in range(3):
            a.manager.handle(logs_request("1", "web", follow=True))
        a.podman.print(web, b"x\n")
        assert await logs(a) == ["1: ['web.given x']"]


async def test_the_loss_of_the_server_ends_all_collections() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        a.manager.handle(logs_request("1", "web", follow=True))
        await logs(a)
        a.disconnect()
        a.podman.print(a.podman.named("web").id, b"x\n")
        a.connect()
        assert await logs(a) == []


async def test_a_busy_workload_delays_neither_the_request_nor_the_agent() -> None:
    db = a_workload("db", "A")
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        a.podman.hold("create")
        await a.handle(update_workload((db,)))
        a.manager.handle(logs_request("1", "db"))
        assert await logs(a) == ["1: db stop"]
        a.podman.release("create")


async def test_a_failed_collection_ends_with_the_reason_and_a_stop() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))

        async def broken(*_: object) -> object:
            yield b"first\nunfinished"
            raise RuntimeFailed("podman failed")

        a.podman.logs = broken  # type: ignore[method-assign,assignment]
        a.manager.handle(logs_request("1", "web"))
        assert await logs(a) == [
            "1: ['web.given first']",
            "1: ['web.given unfinished', 'web.given podman failed']",
            "1: web stop",
        ]


async def test_options_are_passed_on() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        seen: list[object] = []

        async def spy(_: str, options: object) -> object:
            seen.append(options)
            if not seen:
                yield b""

        a.podman.logs = spy  # type: ignore[method-assign,assignment]
        a.manager.handle(logs_request("1", "web", follow=True, tail=-1, since="yesterday", until="now"))
        a.manager.handle(logs_request("2", "web"))
        await logs(a)
        assert [repr(options) for options in seen] == [
            "LogOptions(follow=True, tail=-1, since='yesterday', until='now')",
            "LogOptions(follow=False, tail=None, since=None, until=None)",
        ]


async def test_a_server_that_does_not_read_stops_the_collection_from_reading() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))
        given = 0

        async def endless(*_: object) -> object:
            nonlocal given
            while True:
                given += 1
                yield b"line\n"

        a.podman.logs = endless  # type: ignore[method-assign,assignment]
        a.manager.handle(logs_request("1", "web", follow=True))
        for _ in range(200):
            await asyncio.sleep(0)
        assert given < 10
        a.manager.handle(logs_cancel_request("1"))
        assert len(await logs(a)) < 10


async def test_an_endless_line_ends_the_collection() -> None:
    async with an_agent() as a:
        await a.handle(server_hello(WEB))

        async def endless(*_: object) -> object:
            while True:
                yield b"x" * 10_000_000

        a.podman.logs = endless  # type: ignore[method-assign,assignment]
        a.manager.handle(logs_request("1", "web", follow=True))
        assert await logs(a) == [
            "1: ['web.given The previous log message exceeded the maximum 50 MB size. Closing the log campaign.']",
            "1: web stop",
        ]
