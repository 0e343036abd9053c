"""The event subscriptions and followed logs of workloads, so that they continue with the next server.

Input: requests of workloads, responses of the server, and the begin of a session. Output: requests to send again, and
whether a response is for the workload. Owns the open requests. A server drops them when the connection of the agent
ends. The response to a repeated request is not forwarded, because the workload has received one before.
"""

from collections.abc import Iterator

from ankaios.common.pb.ank_base_pb2 import Request, Response

MOST_OPEN = 1000
_CANCELLING = ("eventsCancelRequest", "logsCancelRequest")
_ACCEPTING = ("completeStateResponse", "logsRequestAccepted")


class OpenRequests:
    def __init__(self) -> None:
        self._asked: dict[str, Request] = {}
        self._open: dict[str, Request] = {}
        self._repeated: set[str] = set()

    def sent(self, request: Request) -> None:
        """A workload sends a request; the id contains its name."""
        request_id = request.requestId
        if request.WhichOneof("RequestContent") in _CANCELLING:
            self.forget(request_id)
        elif request.completeStateRequest.subscribeForEvents or request.logsRequest.follow:
            kept = Request()
            kept.CopyFrom(request)
            self._asked[request_id] = kept
            while len(self._asked) > MOST_OPEN:
                del self._asked[next(iter(self._asked))]

    def forget(self, request_id: str) -> None:
        for requests in (self._asked, self._open):
            requests.pop(request_id, None)
        self._repeated.discard(request_id)

    def is_for_workload(self, response: Response) -> bool:
        """Record a response. Return False if the workload has received it before."""
        request_id, kind = response.requestId, response.WhichOneof("ResponseContent")
        if kind == "error":
            self.forget(request_id)
        if kind not in _ACCEPTING or response.completeStateResponse.HasField("alteredFields"):
            return True
        if request_id in self._repeated:
            self._repeated.discard(request_id)
            return False
        if (request := self._asked.pop(request_id, None)) is not None and len(self._open) < MOST_OPEN:
            self._open[request_id] = request
        return True

    def repeat(self, since: str) -> Iterator[Request]:
        """Yield the requests to send again at the begin of a session; logs continue at this time (RFC 3339)."""
        for request_id, request in self._open.items():
            self._repeated.add(request_id)
            again = Request()
            again.CopyFrom(request)
            if again.HasField("logsRequest"):
                again.logsRequest.since = since
                again.logsRequest.ClearField("tail")
            yield again
