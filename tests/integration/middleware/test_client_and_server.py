"""Agents, CLIs and commanders exchange messages with a server over real sockets."""

import asyncio

import pytest

from ankaios.common.channels import Channel
from ankaios.common.errors import StartupFailed
from ankaios.common.messages import (
    AgentGone,
    BroadcastLogsCancel,
    BroadcastStates,
    ClientGone,
    FromAgent,
    FromClient,
    Respond,
    StatesForAgents,
    ToAgent,
)
from ankaios.common.pb.ank_base_pb2 import ExecutionState, Request, WorkloadInstanceName, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import (
    DeviceReport,
    FromServer,
    Goodbye,
    LogsCancelRequest,
    ToServer,
    UpdateWorkloadState,
)
from ankaios.grpc.keepalive import Keepalive
from ankaios.middleware.client import connect
from ankaios.middleware.connecting import (
    BadUrl,
    CannotConnect,
    ConnectionLost,
    ConnectionSettings,
    VersionRefused,
    effective_url,
)
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits, MiddlewareServer
from tests.integration.middleware.support import (
    TIME_LIMIT,
    Running,
    a_commander_hello,
    a_greeting,
    a_request,
    an_agent_hello,
    an_answer,
    answering,
    assert_served,
    received,
    running_server,
)


async def admitted(running: Running) -> str:
    """The connection name of the client whose request comes next."""
    message = await running.next()
    assert isinstance(message, FromClient)
    return message.connection


async def test_an_agent_sends_its_hello_and_receives_the_server_hello() -> None:
    """Hellos and states are sent through the middleware, over gRPC.

    [itest->swdd~communication-to-from-server-middleware~1]
    [itest->swdd~server-default-communication-grpc~1]
    [itest->swdd~communication-to-from-agent-middleware~1]
    [itest->swdd~agent-default-communication-grpc~1]
    """
    async with running_server() as running, running.agent("agent_A") as agent:
        assert await running.next() == FromAgent("agent_A", an_agent_hello("agent_A"))
        running.server.dispatch(ToAgent("agent_A", a_greeting()))
        assert await received(agent) == a_greeting()


async def test_a_request_of_a_cli_is_answered_with_its_id() -> None:
    async with running_server() as running, running.client() as cli:
        await cli.send(a_request("id@with@signs"))
        message = await running.next()
        assert isinstance(message, FromClient)
        assert message.connection.startswith("cli-conn-")
        assert message.request.requestId == f"{message.connection}@id@with@signs"
        running.server.dispatch(Respond(an_answer(message.request.requestId)))
        assert await received(cli) == FromServer(response=an_answer("id@with@signs"))


async def test_a_commander_has_a_separate_method_and_prefix() -> None:
    async with running_server() as running, running.client(Method.COMMAND) as commander:
        await commander.send(a_request())
        assert (await admitted(running)).startswith("commander-conn-")


async def test_a_response_to_a_workload_is_sent_to_its_agent() -> None:
    async with running_server() as running, running.agent("agent_A") as agent:
        await running.next()
        await agent.send(a_request("web@id"))
        message = await running.next()
        assert isinstance(message, FromAgent)
        assert message.message.request.requestId == "agent_A@web@id"
        running.server.dispatch(Respond(an_answer("agent_A@web@id")))
        assert await received(agent) == FromServer(response=an_answer("web@id"))


async def test_device_reports_are_sent_to_a_server_of_this_project() -> None:
    report = ToServer(deviceReport=DeviceReport(complete=True))
    async with running_server() as running, running.agent("agent_A") as agent:
        await running.next()
        await agent.send(report)
        assert await running.next() == FromAgent("agent_A", report)


async def test_only_agents_that_announce_nothing_receive_all_states() -> None:
    """Agents of Eclipse Ankaios announce nothing."""
    hello = an_agent_hello("agent_A")
    hello.agentHello.dependencyStatesOnly = True
    name = WorkloadInstanceName(workloadName="web", agentName="agent_C", id="x")
    state = WorkloadState(instanceName=name, executionState=ExecutionState(additionalInfo=""))
    async with (
        running_server() as running,
        running.client(Method.AGENT, hello) as announcing,
        running.agent("agent_B") as other,
    ):
        assert {type(await running.next()) for _ in range(2)} == {FromAgent}
        running.server.dispatch(BroadcastStates((state,)))
        running.server.dispatch(BroadcastStates((state,), (StatesForAgents((state,), ("agent_A",)),)))
        running.server.dispatch(BroadcastLogsCancel("full@id"))
        messages = FromServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[state]))
        cancel = FromServer(logsCancelRequest=LogsCancelRequest(requestId="full@id"))
        assert [await received(announcing) for _ in range(2)] == [messages, cancel]
        assert [await received(other) for _ in range(3)] == [messages, messages, cancel]


async def test_messages_of_one_connection_keep_their_order() -> None:
    async with running_server(capacity=3) as running, running.agent("agent_A") as agent:
        sending = asyncio.create_task(_send_all(agent.send, 500))
        await running.next()
        for number in range(500):
            message = await running.next()
            assert isinstance(message, FromAgent)
            assert message.message.request.requestId == f"agent_A@web@{number}"
        await sending


async def _send_all(send: object, count: int) -> None:
    for number in range(count):
        await send(a_request(f"web@{number}"))  # type: ignore[operator]


async def test_states_reach_agents_and_cli_but_no_commander() -> None:
    name = WorkloadInstanceName(workloadName="web", agentName="agent_A", id="x")
    state = WorkloadState(instanceName=name, executionState=ExecutionState(additionalInfo=""))
    async with (
        running_server() as running,
        running.agent("agent_A") as owner,
        running.agent("agent_B") as other,
        running.client() as cli,
        running.client(Method.COMMAND) as commander,
    ):
        await commander.send(a_request())
        await cli.send(a_request())
        names = [await running.next() for _ in range(4)]
        clients = {m.connection for m in names if isinstance(m, FromClient)}
        running.server.dispatch(BroadcastStates((state,)))
        running.server.dispatch(BroadcastLogsCancel("full@id"))
        for connection in clients:
            running.server.dispatch(Respond(an_answer(f"{connection}@id")))
        for observer in (other, cli):
            assert (await received(observer)).updateWorkloadState.workloadStates == [state]
        cancel = FromServer(logsCancelRequest=LogsCancelRequest(requestId="full@id"))
        for receiver in (owner, other, cli):
            assert await received(receiver) == cancel
        assert await received(commander) == FromServer(response=an_answer("id"))


async def test_goodbye_of_a_cli_ends_its_stream_with_ok_and_is_reported_once() -> None:
    async with running_server() as running, running.client() as cli:
        await cli.send(a_request())
        connection = await admitted(running)
        running.server.dispatch(Respond(an_answer(f"{connection}@id")))
        await cli.send(ToServer(goodbye=Goodbye()))
        assert await running.next() == ClientGone(connection)
        assert (await received(cli)).response.requestId == "id"
        with pytest.raises(ConnectionLost, match="the server ended the connection"):
            await received(cli)
    assert len(running.channel) == 0


@pytest.mark.parametrize("ending", ["close", "goodbye", "half-close"])
async def test_every_end_of_an_agent_is_reported_once(ending: str) -> None:
    async with running_server() as running:
        async with running.agent("agent_A") as agent:
            await running.next()
            if ending == "goodbye":
                await agent.send(ToServer(goodbye=Goodbye()))
            elif ending == "half-close":
                agent._call.half_close()
            if ending != "close":
                assert await running.next() == AgentGone("agent_A")
        if ending == "close":
            assert await running.next() == AgentGone("agent_A")
        await running.server.close()
        assert len(running.channel) == 0


async def test_a_message_sent_right_before_the_end_still_arrives() -> None:
    async with running_server() as running:
        async with running.agent("agent_A") as agent:
            await agent.send(a_request("web@last"))
        messages = [await running.next() for _ in range(3)]
        assert isinstance(messages[1], FromAgent)
        assert messages[1].message.request.requestId == "agent_A@web@last"
        assert messages[2] == AgentGone("agent_A")


async def test_a_second_agent_of_the_same_name_is_rejected_and_both_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server() as running, running.agent("agent_A") as first:
        await running.next()
        with pytest.raises(CannotConnect) as failure:
            async with running.agent("agent_A"):
                pass
        text = "Two agents have the name 'agent_A': the one at 127.0.0.1 is connected, the one at 127.0.0.1 is rejected"
        assert text in failure.value.reason
        assert text in caplog.text
        assert len(running.channel) == 0
        running.server.dispatch(ToAgent("agent_A", a_greeting()))
        assert await received(first) == a_greeting()


async def test_an_agent_that_does_not_respond_any_more_is_replaced_in_order() -> None:
    limits = Limits(keepalive=Keepalive(60, 0.2))
    async with running_server(limits=limits) as running, running.agent("agent_A") as older:
        await running.next()
        older._call.connection._transport.pause_reading()
        async with running.agent("agent_A") as newer:
            assert await running.next() == AgentGone("agent_A")
            assert await running.next() == FromAgent("agent_A", an_agent_hello("agent_A"))
            older._call.connection._transport.resume_reading()
            with pytest.raises(ConnectionLost, match="replaced by a newer connection of agent 'agent_A'"):
                await received(older)
            running.server.dispatch(ToAgent("agent_A", a_greeting()))
            assert await received(newer) == a_greeting()
        assert await running.next() == AgentGone("agent_A")
        await running.server.close()
        assert len(running.channel) == 0


async def test_of_many_connections_of_one_agent_exactly_one_is_accepted() -> None:
    async with running_server(capacity=2) as running:
        accepted = asyncio.Event()
        rejections = []

        async def come_and_stay() -> None:
            try:
                async with running.agent("agent_A") as agent:
                    await agent.receive()
            except CannotConnect as rejection:
                rejections.append(rejection.reason)
                if len(rejections) == 19:
                    accepted.set()

        comers = [asyncio.create_task(come_and_stay()) for _ in range(20)]
        async with asyncio.timeout(TIME_LIMIT):
            await accepted.wait()
        assert isinstance(await running.next(), FromAgent)
        assert len(running.channel) == 0
        for comer in comers:
            comer.cancel()
        await asyncio.gather(*comers, return_exceptions=True)


async def test_malformed_requests_are_answered_and_affect_nothing_else() -> None:
    async with running_server() as running, answering(running), running.client() as cli:
        await cli.send(ToServer(request=Request(requestId="empty")))
        answer = await received(cli)
        assert (answer.response.requestId, answer.response.error.message) == ("empty", "The request has no content.")
        await cli.send(ToServer())
        await cli.send(a_commander_hello())
        await cli.send(an_agent_hello())
        await cli.send(a_request(""))
        await assert_served(cli)


async def test_ignored_messages_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as running, answering(running), running.client() as cli:
        for _ in range(200):
            await cli.send(ToServer())
        await assert_served(cli)
    ignored = [record for record in caplog.records if "Ignored" in record.message]
    assert len(ignored) == 10


@pytest.mark.parametrize(
    ("method", "hello", "text"),
    [
        (Method.AGENT, ToServer(), "Empty (INVALID_ARGUMENT)"),
        (Method.AGENT, a_commander_hello(), "No AgentHello received. (INVALID_ARGUMENT)"),
        (Method.CLI, an_agent_hello(), "No CommanderHello received. (INVALID_ARGUMENT)"),
        (Method.COMMAND, a_request(), "No CommanderHello received. (INVALID_ARGUMENT)"),
    ],
)
async def test_a_wrong_hello_is_refused_with_a_status(method: Method, hello: ToServer, text: str) -> None:
    async with running_server() as running:
        with pytest.raises(CannotConnect) as failure:
            async with running.client(method, hello):
                pass
        assert failure.value.reason == f"the server rejected the call: {text}"
        assert len(running.channel) == 0


async def test_another_version_is_refused() -> None:
    async with running_server() as running:
        for method, hello in (
            (Method.AGENT, an_agent_hello(version="2.0.0")),
            (Method.CLI, a_commander_hello("2.0.0")),
        ):
            with pytest.raises(VersionRefused) as failure:
                async with running.client(method, hello):
                    pass
            text = "Unsupported protocol version '2.0.0'. Currently supported '1'"
            assert failure.value.text == text
            assert str(failure.value) == f"Ankaios version mismatch: '{text}'."


async def test_a_refused_port_is_a_start_error_naming_the_address() -> None:
    async with running_server() as running:
        second = MiddlewareServer(Channel(1), None)
        with pytest.raises(StartupFailed) as failure:
            await second.start("127.0.0.1", running.server.port)
        assert failure.value.context == "server error"
        assert f"cannot listen on '127.0.0.1:{running.server.port}'" in failure.value.reason


async def test_a_missing_server_is_reported_with_the_url_and_a_reason() -> None:
    async with running_server() as running:
        url = running.url.replace("http:", "https:")
    with pytest.raises(CannotConnect) as failure:
        async with connect(ConnectionSettings(url), Method.CLI, a_commander_hello()):
            pass
    assert str(failure.value) == f"Could not connect to Ankaios server on '{running.url}'."
    assert "refused" in failure.value.reason.lower()


async def test_an_unknown_host_is_named() -> None:
    with pytest.raises(CannotConnect) as failure:
        async with connect(ConnectionSettings("http://no.such.host.invalid:1"), Method.CLI, a_commander_hello()):
            pass
    assert "cannot find host 'no.such.host.invalid'" in failure.value.reason


@pytest.mark.parametrize("url", ["", "127.0.0.1:25551", "ftp://x", "http://", "https://x:99999", "http://x:y"])
async def test_bad_urls_are_refused(url: str) -> None:
    with pytest.raises(BadUrl) as failure:
        async with connect(ConnectionSettings(url), Method.CLI, a_commander_hello()):
            pass
    assert str(failure.value).startswith("Wrong server address format: '")


def test_https_is_rejected_without_certificates() -> None:
    assert effective_url("https://https:1/https:", None) == "http://http:1/http:"


async def test_a_server_that_never_responds_is_reported_in_time() -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    mute = await asyncio.start_server(swallow, "127.0.0.1", 0)
    async with mute:
        url = f"http://127.0.0.1:{mute.sockets[0].getsockname()[1]}"
        settings = ConnectionSettings(url, connect_timeout=0.3)
        with pytest.raises(CannotConnect) as failure:
            async with connect(settings, Method.CLI, a_commander_hello()):
                pass
    assert failure.value.reason in ("no response within 0.3 s", "the connection was not set up in time")


async def test_a_server_of_another_protocol_is_reported() -> None:
    async def chat(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(chat, "127.0.0.1", 0)
    async with other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        with pytest.raises(CannotConnect) as failure:
            async with connect(ConnectionSettings(url), Method.CLI, a_commander_hello()):
                pass
    assert "if the server uses TLS, certificate files and an https address are needed" in failure.value.reason


async def test_sending_to_a_server_that_closed_fails() -> None:
    async with running_server() as running, running.client() as cli:
        await running.server.close()
        with pytest.raises(ConnectionLost):
            await received(cli)
        with pytest.raises(ConnectionLost):
            await cli.send(a_request())


async def test_a_response_for_a_client_that_left_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with running_server() as running:
        running.server.dispatch(Respond(an_answer("cli-conn-gone@id")))
    assert "has no receiver" in caplog.text


async def test_ipv6_addresses_work_in_urls() -> None:
    channel: Channel[object] = Channel(10)
    server = MiddlewareServer(channel, None)  # type: ignore[arg-type]
    try:
        await server.start("::1", 0)
    except StartupFailed:
        pytest.skip("no IPv6 on this machine")
    settings = ConnectionSettings(f"http://[::1]:{server.port}")
    async with connect(settings, Method.CLI, a_commander_hello()) as cli:
        await cli.send(a_request())
        assert isinstance(await channel.receive(), FromClient)
    await server.close()


async def test_a_disconnected_agent_receives_the_reason_and_can_connect_again() -> None:
    async with running_server() as running:
        async with running.agent("agent_A") as connection:
            assert isinstance(await running.next(), FromAgent)
            running.server.drop_agent("missing", "unknown agents are ignored")
            running.server.drop_agent("agent_A", "a bug")
            with pytest.raises(ConnectionLost, match="a bug"):
                await received(connection)
        assert await running.next() == AgentGone("agent_A")
        running.server.drop_agent("agent_A", "it has gone already")
        async with running.agent("agent_A") as connection:
            assert isinstance(await running.next(), FromAgent)
            running.server.dispatch(ToAgent("agent_A", a_greeting()))
            assert (await received(connection)).HasField("serverHello")
