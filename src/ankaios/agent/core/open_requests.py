"""The event subscriptions and followed logs of workloads, so that they continue with the next server.

Input: requests of workloads, responses of the server, and the begin of a session. Output: requests to send again, and
what is forwarded to the workload. Owns the open requests. A server drops them when the connection of the agent ends.
The response to a repeated request is not forwarded, because the workload has received one before. Instead of it, a
subscriber receives one event with the changes that it has missed.
"""

from collections.abc import Iterator

from ankaios.agent.core.followed_state import FollowedState
from ankaios.common.pb.ank_base_pb2 import Request, Response

MOST_OPEN = 1000
_CANCELLING = ("eventsCancelRequest", "logsCancelRequest")
_ACCEPTING = ("completeStateResponse", "logsRequestAccepted")


class OpenRequests:
    def __init__(self) -> None:
        self._asked: dict[str, Request] = {}
        self._open: dict[str, Request] = {}
        self._repeated: set[str] = set()
        self._followed: dict[str, FollowedState] = {}

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
        for requests in (self._asked, self._open, self._followed):
            requests.pop(request_id, None)
        self._repeated.discard(request_id)

    def for_workload(self, response: Response) -> Response | None:
        """Record a response. Return what the workload receives: the response, an event instead of it, or nothing."""
        request_id, kind = response.requestId, response.WhichOneof("ResponseContent")
        if kind == "error":
            self.forget(request_id)
        followed = self._followed.get(request_id)
        if response.completeStateResponse.HasField("alteredFields"):
            if followed is not None:
                followed.apply(response.completeStateResponse)
            return response
        if kind not in _ACCEPTING:
            return response
        if request_id in self._repeated:
            self._repeated.discard(request_id)
            state = response.completeStateResponse.completeState
            return None if followed is None else followed.catch_up(request_id, state)
        self._accepted(response)
        return response

    def _accepted(self, response: Response) -> None:
        request = self._asked.pop(response.requestId, None)
        if request is None or len(self._open) >= MOST_OPEN:
            return
        self._open[response.requestId] = request
        if request.completeStateRequest.subscribeForEvents:
            masks, first = request.completeStateRequest.fieldMask, response.completeStateResponse.completeState
            self._followed[response.requestId] = FollowedState(masks, first)

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
