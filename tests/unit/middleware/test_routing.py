"""Request ids, the meaning of incoming messages, and the receivers of outgoing ones."""

import pytest

from ankaios.common.messages import (
    BroadcastLogsCancel,
    BroadcastStates,
    FromAgent,
    FromClient,
    FromServerMessage,
    Respond,
    StatesForAgents,
    ToAgent,
    error_response,
)
from ankaios.common.pb.ank_base_pb2 import (
    CompleteState,
    CompleteStateRequest,
    CompleteStateResponse,
    ExecutionState,
    LogsRequest,
    Request,
    Response,
    UpdateStateRequest,
    WorkloadInstanceName,
    WorkloadState,
)
from ankaios.common.pb.grpc_api_pb2 import (
    AgentHello,
    AgentLoadStatus,
    CommanderHello,
    FromServer,
    Goodbye,
    LogEntriesResponse,
    LogsCancelRequest,
    ServerHello,
    ToServer,
    UpdateWorkload,
    UpdateWorkloadState,
)
from ankaios.common.pb.grpc_api_pb2 import LogsRequest as AgentLogsRequest
from ankaios.middleware import routing
from ankaios.middleware.methods import Method
from ankaios.middleware.routing import (
    Deliver,
    Ignore,
    Incoming,
    RejectRequest,
    SenderTables,
    encode_response,
    interpret_agent_message,
    interpret_client_message,
    split_receiver,
)

CLI = "cli-conn-1"


def a_request(request_id: str = "web@id") -> Request:
    return Request(requestId=request_id, completeStateRequest=CompleteStateRequest())


def a_state(agent: str, workload: str = "web") -> WorkloadState:
    name = WorkloadInstanceName(workloadName=workload, agentName=agent, id="x")
    return WorkloadState(instanceName=name, executionState=ExecutionState(additionalInfo=""))


def tables() -> SenderTables[str]:
    made: SenderTables[str] = SenderTables()
    made.add_agent("a", "to a")
    made.add_agent("b", "to b")
    made.add_client(CLI, Method.CLI, "to cli")
    made.add_client("commander-conn-1", Method.COMMAND, "to commander")
    return made


def sent(table: SenderTables[str], message: FromServerMessage) -> dict[str, FromServer]:
    deliveries, _ = table.deliveries(message)
    assert len(dict(deliveries)) == len(deliveries)
    return {receiver: FromServer.FromString(payload) for receiver, payload in deliveries}


def test_requests_of_agents_contain_the_agent_name() -> None:
    incoming = interpret_agent_message("a", ToServer(request=a_request("web@id@more")))
    assert incoming == Deliver(FromAgent("a", ToServer(request=a_request("a@web@id@more"))))


def test_requests_of_clients_contain_the_connection() -> None:
    incoming = interpret_client_message(CLI, ToServer(request=a_request("id@x")))
    assert incoming == Deliver(FromClient(CLI, a_request(f"{CLI}@id@x")))


@pytest.mark.parametrize(("request_id", "parts"), [("a@b@c", ("a", "b@c")), ("a@", ("a", "")), ("a", ("", "a"))])
def test_ids_are_split_at_the_first_separator(request_id: str, parts: tuple[str, str]) -> None:
    assert split_receiver(request_id) == parts


def both(message: ToServer) -> list[Incoming]:
    copy = ToServer.FromString(message.SerializeToString())
    return [interpret_agent_message("a", message), interpret_client_message(CLI, copy)]


def test_a_request_without_id_is_ignored() -> None:
    for incoming in both(ToServer(request=a_request(""))):
        assert isinstance(incoming, Ignore)


def test_a_request_without_content_is_answered_with_an_error() -> None:
    for incoming in both(ToServer(request=Request(requestId="web@id"))):
        assert incoming == RejectRequest(error_response("web@id", "The request has no content."))


def test_an_update_without_new_state_is_answered_with_an_error() -> None:
    request = Request(requestId="web@id", updateStateRequest=UpdateStateRequest(updateMask=["desiredState"]))
    for incoming in both(ToServer(request=request)):
        assert incoming == RejectRequest(error_response("web@id", "The update request has no new state."))


def test_an_update_with_an_empty_new_state_is_delivered() -> None:
    request = Request(requestId="web@id", updateStateRequest=UpdateStateRequest(newState=CompleteState()))
    for incoming in both(ToServer(request=request)):
        assert isinstance(incoming, Deliver)


def test_later_hellos_and_empty_messages_are_ignored() -> None:
    for message in (ToServer(), ToServer(agentHello=AgentHello()), ToServer(commanderHello=CommanderHello())):
        for incoming in both(message):
            assert isinstance(incoming, Ignore)


def test_goodbye_ends_the_connection() -> None:
    assert both(ToServer(goodbye=Goodbye())) == [routing.Disconnect(), routing.Disconnect()]


@pytest.mark.parametrize(
    "request_",
    [
        Request(requestId="id", logsRequest=LogsRequest()),
        Request(requestId="id", completeStateRequest=CompleteStateRequest(subscribeForEvents=True)),
    ],
)
def test_an_agent_must_name_the_workload_of_requests_that_are_answered_later(request_: Request) -> None:
    incoming = interpret_agent_message("a", ToServer(request=request_))
    assert isinstance(incoming, RejectRequest)
    assert incoming.response.requestId == "id"


def test_an_agent_need_not_name_a_workload_for_a_single_answer() -> None:
    assert isinstance(interpret_agent_message("a", ToServer(request=a_request("id"))), Deliver)


def test_log_entries_of_an_agent_are_forwarded_with_their_full_id() -> None:
    message = ToServer(logEntriesResponse=LogEntriesResponse(requestId="b@web@id"))
    assert interpret_agent_message("a", message) == Deliver(FromAgent("a", message))
    assert message.logEntriesResponse.requestId == "b@web@id"


def test_an_agent_reports_its_own_load_only() -> None:
    own, foreign = (ToServer(AgentLoadStatus=AgentLoadStatus(agent_name=name)) for name in ("a", "b"))
    assert isinstance(interpret_agent_message("a", own), Deliver)
    assert isinstance(interpret_agent_message("a", foreign), Ignore)


def test_an_agent_reports_states_of_its_own_workloads_only() -> None:
    mixed = ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[a_state("b"), a_state("a")]))
    incoming = interpret_agent_message("a", mixed)
    own = ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[a_state("a")]))
    assert incoming == Deliver(FromAgent("a", own))
    foreign = ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[a_state("b")]))
    assert interpret_agent_message("a", foreign) == Ignore("1 workload states of other agents")


def test_an_empty_list_of_states_is_delivered_as_it_is() -> None:
    message = ToServer(updateWorkloadState=UpdateWorkloadState())
    assert interpret_agent_message("a", message) == Deliver(FromAgent("a", message))


def test_clients_may_not_send_messages_of_agents() -> None:
    message = ToServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[a_state("a")]))
    assert isinstance(interpret_client_message(CLI, message), Ignore)


@pytest.mark.parametrize(
    ("request_id", "receiver", "rest"),
    [("a@web@id", "to a", "web@id"), (f"{CLI}@id", "to cli", "id"), ("commander-conn-1@x@y", "to commander", "x@y")],
)
def test_a_response_is_sent_to_the_receiver_named_by_its_id(request_id: str, receiver: str, rest: str) -> None:
    answer = error_response(request_id, "no")
    assert sent(tables(), Respond(answer)) == {receiver: FromServer(response=error_response(rest, "no"))}
    assert answer.requestId == request_id


@pytest.mark.parametrize("request_id", ["gone@web@id", "a", "", "@id", "cli-conn-2@id"])
def test_a_response_without_receiver_is_dropped_and_reported(request_id: str) -> None:
    deliveries, undelivered = tables().deliveries(Respond(error_response(request_id, "no")))
    assert deliveries == []
    assert undelivered is not None


def test_an_encoded_response_equals_the_plain_form() -> None:
    for size in (0, 1, 127, 128, 70_000):
        response = Response(requestId="a@b@c", completeStateResponse=CompleteStateResponse())
        response.completeStateResponse.completeState.desiredState.apiVersion = "v" * size
        plain = FromServer(response=response)
        plain.response.requestId = "b@c"
        assert FromServer.FromString(encode_response(response, "b@c")) == plain


def test_states_are_sent_to_all_cli_clients_and_to_agents_without_their_own() -> None:
    states = (a_state("a", "x"), a_state("b", "y"), a_state("c", "z"))
    received = {
        receiver: [state.instanceName.workloadName for state in message.updateWorkloadState.workloadStates]
        for receiver, message in sent(tables(), BroadcastStates(states)).items()
    }
    assert received == {"to cli": ["x", "y", "z"], "to a": ["y", "z"], "to b": ["x", "z"]}


def test_lists_of_states_that_would_be_empty_are_not_sent() -> None:
    assert set(sent(tables(), BroadcastStates((a_state("a"),)))) == {"to cli", "to b"}
    assert sent(tables(), BroadcastStates(())) == {}


def test_the_end_of_a_log_campaign_is_sent_to_agents_and_cli_clients_with_the_full_id() -> None:
    cancel = FromServer(logsCancelRequest=LogsCancelRequest(requestId="cli-conn-1@id"))
    assert sent(tables(), BroadcastLogsCancel("cli-conn-1@id")) == dict.fromkeys(("to a", "to b", "to cli"), cancel)


def test_an_agent_receives_workloads_only_after_its_greeting() -> None:
    table = tables()
    update, logs = FromServer(updateWorkload=UpdateWorkload()), FromServer(logsRequest=AgentLogsRequest(requestId="i"))
    greeting = FromServer(serverHello=ServerHello())
    assert sent(table, ToAgent("a", update)) == sent(table, ToAgent("a", logs)) == {}
    assert sent(table, ToAgent("a", greeting)) == {"to a": greeting}
    assert sent(table, ToAgent("a", update)) == {"to a": update}
    assert sent(table, ToAgent("a", logs)) == {"to a": logs}
    table.remove_agent("a")
    table.add_agent("a", "to a")
    assert sent(table, ToAgent("a", update)) == {}


def test_disconnected_peers_receive_no_messages() -> None:
    table = tables()
    table.remove_agent("a")
    table.remove_client(CLI)
    table.remove_client("commander-conn-1")
    assert sent(table, ToAgent("a", FromServer(serverHello=ServerHello()))) == {}
    assert set(sent(table, BroadcastStates((a_state("c"),)))) == {"to b"}
    assert set(sent(table, BroadcastLogsCancel("i"))) == {"to b"}


def test_a_broadcast_is_encoded_once_for_all_receivers_of_the_same_states() -> None:
    tables: SenderTables[str] = SenderTables()
    for number in range(50):
        tables.add_agent(f"all{number}", f"to all{number}")
        tables.add_agent(f"some{number}", f"to some{number}", all_states=False)
    states = (a_state("n1", "web"), a_state("n1", "db"))
    selected = (StatesForAgents((states[1],), tuple(f"some{number}" for number in range(50))),)
    deliveries, _ = tables.deliveries(BroadcastStates(states, selected))
    deliveries = list(deliveries)
    assert len(deliveries) == 100
    assert len({id(payload) for _, payload in deliveries}) == 2


def test_an_agent_that_requests_only_some_states_receives_those_that_are_selected_for_it() -> None:
    tables: SenderTables[str] = SenderTables()
    tables.add_agent("all", "to all")
    tables.add_agent("some", "to some", all_states=False)
    tables.add_agent("none", "to none", all_states=False)
    states = tuple(
        WorkloadState(instanceName=WorkloadInstanceName(workloadName=name, agentName="n1", id="x"))
        for name in ("web", "db")
    )
    selected = (StatesForAgents((states[1],), ("some", "gone")),)
    deliveries, undelivered = tables.deliveries(BroadcastStates(states, selected))
    received = {
        sender: [it.instanceName.workloadName for it in FromServer.FromString(data).updateWorkloadState.workloadStates]
        for sender, data in deliveries
    }
    assert received == {"to all": ["web", "db"], "to some": ["db"]}
    assert undelivered is None
