"""A server that does what a test specifies: real gRPC (of another library), scripted answers.

It has one state and answers complete-state requests from it, with field masks. The script decides everything else:
a function from a received message to the messages sent back. All received messages are kept for the test.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer, UpdateWorkloadState

Script = Callable[[ToServer], Iterable[FromServer] | None]
_END = object()


def response(request: ToServer, **content: Any) -> FromServer:
    return FromServer(response=base.Response(requestId=request.request.requestId, **content))


def states(*entries: tuple[str, str, str, dict[str, Any]]) -> FromServer:
    """`(workload, id, agent, execution state)` as the unrequested message about workload states."""
    return FromServer(
        updateWorkloadState=UpdateWorkloadState(
            workloadStates=[
                base.WorkloadState(
                    instanceName=base.WorkloadInstanceName(workloadName=name, agentName=agent, id=instance_id),
                    executionState=base.ExecutionState(**({"additionalInfo": ""} | state)),
                )
                for name, instance_id, agent, state in entries
            ]
        )
    )


class ScriptedServer:
    """`with ScriptedServer(state) as server:` listens on a free port until the end of the block."""

    def __init__(self, state: base.CompleteState | None = None, script: Script | None = None) -> None:
        self.state = state or base.CompleteState()
        self.received: list[ToServer] = []
        self.hello_status: tuple[grpc.StatusCode, str] | None = None
        self.answers_states = True
        self.ends_on_goodbye = True
        self._script = script or (lambda _: None)
        self._streams: list[queue.Queue[Any]] = []
        self._changed = threading.Condition()

    def __enter__(self) -> "ScriptedServer":
        self._server = grpc.server(ThreadPoolExecutor(8))
        handler = grpc.stream_stream_rpc_method_handler(
            self._connect, request_deserializer=ToServer.FromString, response_serializer=FromServer.SerializeToString
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc_api.CliConnection", {"ConnectCli": handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._server.stop(0).wait(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[base.Request]:
        return [message.request for message in self.received if message.HasField("request")]

    def push(self, message: FromServer) -> None:
        """Send to all connected clients without a request."""
        for stream in self._streams:
            stream.put(message)

    def drop(self) -> None:
        """End all streams."""
        for stream in self._streams:
            stream.put(_END)

    def wait_for(self, condition: Callable[[ToServer], bool], limit: float = 10) -> ToServer:
        """Return the first received message of that kind; wait for it if necessary."""

        def found() -> ToServer | None:
            return next((message for message in self.received if condition(message)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, limit), "the server never got the message"
        message = found()
        assert message is not None
        return message

    def _connect(self, requests: Iterator[ToServer], context: grpc.ServicerContext) -> Iterator[FromServer]:
        hello = next(requests)
        self._note(hello)
        if self.hello_status:
            context.abort(*self.hello_status)
        context.send_initial_metadata(())
        stream: queue.Queue[Any] = queue.Queue()
        self._streams.append(stream)
        threading.Thread(target=self._read, args=(requests, stream), daemon=True).start()
        while (message := stream.get()) is not _END:
            yield message

    def _read(self, requests: Iterator[ToServer], stream: "queue.Queue[Any]") -> None:
        try:
            for message in requests:
                self._note(message)
                if message.HasField("goodbye") and self.ends_on_goodbye:
                    stream.put(_END)
                for answer in self._answers(message):
                    stream.put(answer)
        except grpc.RpcError:
            pass
        stream.put(_END)

    def _answers(self, message: ToServer) -> Iterable[FromServer]:
        scripted = self._script(message)
        if scripted is not None:
            return scripted
        if message.request.HasField("completeStateRequest") and self.answers_states:
            state = masked(self.state, list(message.request.completeStateRequest.fieldMask))
            return [response(message, completeStateResponse=base.CompleteStateResponse(completeState=state))]
        return []

    def _note(self, message: ToServer) -> None:
        with self._changed:
            self.received.append(message)
            self._changed.notify_all()


def masked(state: base.CompleteState, masks: list[str]) -> base.CompleteState:
    """What a server answers: exactly the selected parts; paths without a value are ignored."""
    if not masks:
        return state
    if any(mask.startswith("desiredState") for mask in masks):
        masks = [*masks, "desiredState.apiVersion"]
    form = COMPLETE_STATE.to_form(state)
    selected: dict[str, Any] = {}
    for mask in masks:
        _select(form, selected, mask.split("."))
    return COMPLETE_STATE.from_form(selected)


def _select(form: dict[str, Any], into: dict[str, Any], parts: list[str]) -> None:
    first, *rest = parts
    for key in list(form) if first == "*" else [first]:
        if key not in form:
            continue
        if not rest:
            into[key] = form[key]
        elif isinstance(form[key], dict):
            inner: dict[str, Any] = into.get(key, {})
            _select(form[key], inner, rest)
            if inner:
                into[key] = inner
