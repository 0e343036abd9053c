"""Every message of the protocol once, against the real server process, by peers that use only the protocol tables.

Needs: nothing but the repository.
"""

from typing import Any

import grpc  # type: ignore[import-untyped]

from tests.support.wire.peer import ServerProcess, message_class

H = "6b1bdc92fc2d9fafe5e422c4a8862abc63aad7095bd8de46c4aafc92388fabe2"
WEB = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: alpine:3"}
WEB_NAME = {"workloadName": "web", "agentName": "n1", "id": H}
RUNNING = {"additionalInfo": "", "running": "RUNNING_OK"}


def state_of(name: dict[str, str], state: dict[str, str]) -> dict[str, Any]:
    return {"workloadStates": [{"instanceName": name, "executionState": state}]}


def new_state(**workloads: Any) -> dict[str, Any]:
    return {"desiredState": {"apiVersion": "v1", "workloads": {"workloads": workloads}}}


def test_a_scenario_with_all_messages() -> None:
    with ServerProcess("--insecure") as server, server.cli() as cli, server.cli(method="commander") as commander:
        # An agent connects.
        n1 = server.agent("n1", tags={"tags": {"zone": "front"}})
        assert n1.receive() == {"serverHello": {}}
        agents = cli.answer("1", completeStateRequest={"fieldMask": ["agents"]})
        assert agents == {
            "completeStateResponse": {
                "completeState": {"agents": {"agents": {"n1": {"tags": {"tags": {"zone": "front"}}}}}}
            }
        }

        # A commander subscribes; the first answer has no altered fields.
        masks = ["desiredState.workloads.*.agent", "agents.n1.status", "workloadStates.*.*.*.subState"]
        first = commander.answer("e", completeStateRequest={"fieldMask": masks, "subscribeForEvents": True})
        assert first == {"completeStateResponse": {"completeState": {"desiredState": {"apiVersion": "v1"}}}}

        # The command line adds a workload.
        update = {"newState": new_state(web=WEB), "updateMask": ["desiredState.workloads.web"]}
        assert cli.answer("2", updateStateRequest=update) == {"UpdateStateSuccess": {"addedWorkloads": [f"web.{H}.n1"]}}
        (added,) = n1.receive()["updateWorkload"]["addedWorkloads"]
        assert added["instanceName"] == WEB_NAME
        assert added["workload"] == {
            **WEB,
            "restartPolicy": "NEVER",
            "dependencies": {},
            "tags": {},
            "controlInterfaceAccess": {},
            "configs": {},
            "files": {},
        }
        event = commander.receive_response()
        assert event["requestId"] == "e"
        assert event["completeStateResponse"]["alteredFields"] == {
            "addedFields": ["desiredState.workloads.web.agent", f"workloadStates.n1.web.{H}.subState"]
        }
        assert event["completeStateResponse"]["completeState"] == {
            "desiredState": {"apiVersion": "v1", "workloads": {"workloads": {"web": {"agent": "n1"}}}},
            "workloadStates": {
                "agentStateMap": {
                    "n1": {"wlNameStateMap": {"web": {"idStateMap": {H: {"pending": "PENDING_INITIAL"}}}}}
                }
            },
        }

        # The agent reports; all clients except the agent and commanders receive the state.
        n1.send(updateWorkloadState=state_of(WEB_NAME, RUNNING))
        assert cli.receive() == {"updateWorkloadState": state_of(WEB_NAME, RUNNING)}
        event = commander.receive_response()
        assert event["completeStateResponse"]["alteredFields"] == {
            "updatedFields": [f"workloadStates.n1.web.{H}.subState"]
        }
        n1.send(
            AgentLoadStatus={"agent_name": "n1", "cpu_usage": {"cpu_usage": 7}, "free_memory": {"free_memory": "2048"}}
        )
        event = commander.receive_response()
        assert event["completeStateResponse"]["alteredFields"] == {"addedFields": ["agents.n1.status"]}
        assert event["completeStateResponse"]["completeState"] == {
            "agents": {
                "agents": {"n1": {"status": {"cpuUsage": {"cpuUsage": 7}, "freeMemory": {"freeMemory": "2048"}}}}
            }
        }

        # Another agent connects and receives the state; an empty state is dropped.
        n2 = server.agent("n2")
        assert n2.receive() == {"updateWorkloadState": state_of(WEB_NAME, RUNNING)}
        assert n2.receive() == {"serverHello": {}}
        incomplete = {"instanceName": WEB_NAME, "executionState": {"running": "RUNNING_OK"}}
        n1.send(updateWorkloadState={"workloadStates": [incomplete]})

        # A workload on n1 sends a request through its agent; the response has an id with the name of the workload.
        n1.send_request("web@my@id", completeStateRequest={"fieldMask": ["workloadStates.n1.web"]})
        response = n1.receive()["response"]
        assert response["requestId"] == "web@my@id"
        states = response["completeStateResponse"]["completeState"]["workloadStates"]["agentStateMap"]
        assert states["n1"]["wlNameStateMap"]["web"]["idStateMap"] == {H: RUNNING}

        # Logs: the request of the command line, lines, the end, and a cancelled one.
        unknown = {"workloadName": "web", "agentName": "n1", "id": "other"}
        wanted = {"workloadNames": [WEB_NAME, unknown], "follow": True, "tail": 3, "since": "s", "until": "u"}
        assert cli.answer("l", logsRequest=wanted) == {"logsRequestAccepted": {"workloadNames": [WEB_NAME]}}
        received = n1.receive()["logsRequest"]
        full_id = received["requestId"]
        assert full_id.startswith("cli-conn-")
        assert full_id.endswith("@l")
        assert received["logsRequest"] == {**wanted, "workloadNames": [WEB_NAME]}
        entries = {"logEntries": [{"workloadName": WEB_NAME, "message": "hi"}]}
        n1.send(logEntriesResponse={"requestId": full_id, "logEntriesResponse": entries})
        assert cli.receive() == {"response": {"requestId": "l", "logEntriesResponse": entries}}
        n1.send(logsStopResponse={"requestId": full_id, "logsStopResponse": {"workloadName": WEB_NAME}})
        assert cli.receive() == {"response": {"requestId": "l", "logsStopResponse": {"workloadName": WEB_NAME}}}
        cli.answer("l2", logsRequest={"workloadNames": [WEB_NAME]})
        second_id = n1.receive()["logsRequest"]["requestId"]
        assert cli.answer("l2", logsCancelRequest={}) == {"logsCancelAccepted": {}}
        for agent in (n1, n2):
            assert agent.receive() == {"logsCancelRequest": {"requestId": second_id}}

        # A rejected update, a cancelled subscription.
        refused = cli.answer("3", updateStateRequest={"newState": {}, "updateMask": ["nowhere.deep"]})
        assert refused == {"error": {"message": "Update rejected: 'Could not find field nowhere.deep'"}}
        assert commander.answer("e", eventsCancelRequest={}) == {"eventsCancelAccepted": {}}

        # The workload is deleted; the agent reports that it is removed.
        deleted = cli.answer("4", updateStateRequest={"newState": {}, "updateMask": ["desiredState.workloads.web"]})
        assert deleted == {"UpdateStateSuccess": {"deletedWorkloads": [f"web.{H}.n1"]}}
        assert n1.receive() == {"updateWorkload": {"deletedWorkloads": [{"instanceName": WEB_NAME}]}}
        removed = {"additionalInfo": "", "removed": "REMOVED"}
        n1.send(updateWorkloadState=state_of(WEB_NAME, removed))
        for peer in (cli, n2):
            assert peer.receive() == {"updateWorkloadState": state_of(WEB_NAME, removed)}

        # The end: after a Goodbye message the server closes the stream.
        commander.goodbye()
        assert commander.rest() == []
        cli.goodbye()
        assert cli.rest() == []
        for agent in (n1, n2):
            agent.close()


def test_a_lost_agent_is_reported_to_all_clients_for_any_end_of_its_stream() -> None:
    lost = {"additionalInfo": "", "agentDisconnected": "AGENT_DISCONNECTED"}
    with ServerProcess("-k") as server, server.cli() as cli:
        cli.answer("u", updateStateRequest={"newState": new_state(web=WEB)})
        for end in ("close", "half_close", "goodbye"):
            agent = server.agent("n1")
            agent.receive()
            agent.send(updateWorkloadState=state_of(WEB_NAME, RUNNING))
            assert cli.receive() == {"updateWorkloadState": state_of(WEB_NAME, RUNNING)}
            getattr(agent, end)()
            assert cli.receive() == {"updateWorkloadState": state_of(WEB_NAME, lost)}
            assert cli.answer("a", completeStateRequest={"fieldMask": ["agents"]}) == {
                "completeStateResponse": {"completeState": {"agents": {}}}
            }
            agent.close()


def test_a_log_campaign_ends_with_the_connection_that_requested_it() -> None:
    with ServerProcess("-k") as server, server.agent("n1") as agent, server.cli() as other:
        agent.receive()
        other.answer("u", updateStateRequest={"newState": new_state(web=WEB)})
        agent.receive()
        reader = server.cli()
        reader.answer("l", logsRequest={"workloadNames": [WEB_NAME], "follow": True})
        request_id = agent.receive()["logsRequest"]["requestId"]
        reader.close()
        assert agent.receive() == {"logsCancelRequest": {"requestId": request_id}}


def test_invalid_requests_are_answered_and_do_not_affect_others() -> None:
    with ServerProcess("-k") as server, server.cli() as cli:
        cli.send_request("empty")
        assert "error" in cli.receive()["response"]
        cli.send_request("nothing new", updateStateRequest={"updateMask": ["desiredState"]})
        assert "error" in cli.receive()["response"]
        cli.send_raw(message_class("grpc_api.ToServer")())
        cli.send(commanderHello={"protocolVersion": "1.0.0"})
        cli.send_request("", eventsCancelRequest={})
        answers = cli.answer("still there", completeStateRequest={"fieldMask": ["", "agents"]})
        while "error" in answers:  # an answer to the message without content is allowed
            answers = cli.receive_response()
        assert answers["completeStateResponse"] == {"completeState": {}}


def test_a_peer_of_another_major_version_is_refused() -> None:
    with ServerProcess("-k") as server:
        for version in ("2.0.0", "v1.0.0", ""):
            with server.cli(version) as peer:
                code, text = peer.failure()
            assert code == grpc.StatusCode.FAILED_PRECONDITION
            assert text == f"Unsupported protocol version '{version}'. Currently supported '1'"


def test_a_peer_that_does_not_send_a_hello_is_rejected() -> None:
    with ServerProcess("-k") as server:
        for method, text in (("agent", "No AgentHello received."), ("cli", "No CommanderHello received.")):
            with server.connect(method) as peer:
                peer.send(goodbye={})
                assert peer.failure() == (grpc.StatusCode.INVALID_ARGUMENT, text)
