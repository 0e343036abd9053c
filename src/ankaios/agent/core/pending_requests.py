"""The requests of one workload that have not ended: unanswered ones, event subscriptions and followed logs. Pure.

Input: requests that are sent to the server, responses, the time, and the begin of a session. Output: whether a further
request may be sent, requests to send again, and what the workload receives. Owns these requests.

Without a limit of unanswered requests, one workload could fill the connection of its agent with requests, and delay the
requests and states of all other workloads.

A server drops subscriptions and followed logs when the connection of the agent ends, so they are sent again to the next
server. The workload has received a response before, so the repeated one is not forwarded. Instead of it, a subscriber
receives one event with the changes that it has missed.
"""

from collections.abc import Iterator

from msgspec import Struct

from ankaios.agent.core.followed_state import FollowedState
from ankaios.common.messages import REQUEST_ID_SEPARATOR
from ankaios.common.pb.ank_base_pb2 import CompleteStateResponse, Request, Response

MOST_UNANSWERED = 64
LONGEST_WAIT = 5.0  # seconds; some requests are never answered
MOST_LASTING = 1000
_CANCELLING = ("eventsCancelRequest", "logsCancelRequest")
_ACCEPTING = ("completeStateResponse", "logsRequestAccepted")


class _LastingRequest(Struct):
    """A subscription, with the state that the workload has received, or followed logs."""

    request: Request
    is_accepted: bool = False
    is_repeated: bool = False  # the response to the repeated request has not arrived yet
    followed: FollowedState | None = None


class PendingRequests:
    """The ids of sent requests have the name of the workload as prefix, those of responses do not."""

    def __init__(self) -> None:
        self._unanswered: list[tuple[str, float]] = []
        self._lasting: dict[str, _LastingRequest] = {}

    def is_full(self, now: float) -> bool:
        if len(self._unanswered) < MOST_UNANSWERED:
            return False
        self._unanswered = [request for request in self._unanswered if now - request[1] < LONGEST_WAIT]
        return len(self._unanswered) >= MOST_UNANSWERED

    def sent(self, request: Request, now: float) -> None:
        request_id = request.requestId.partition(REQUEST_ID_SEPARATOR)[2]
        self._unanswered.append((request_id, now))
        if request.WhichOneof("RequestContent") in _CANCELLING:
            self._lasting.pop(request_id, None)
        elif request.completeStateRequest.subscribeForEvents or request.logsRequest.follow:
            self._lasting.pop(request_id, None)
            if len(self._lasting) >= MOST_LASTING:
                del self._lasting[next(iter(self._lasting))]
            self._lasting[request_id] = _LastingRequest(_copy(request))

    def received(self, response: Response) -> Response | None:
        """Record a response. Return what the workload receives: the response, an event instead of it, or nothing."""
        self._remove_unanswered(response.requestId)
        lasting, kind = self._lasting.get(response.requestId), response.WhichOneof("ResponseContent")
        if lasting is None:
            return response
        if kind == "error":
            del self._lasting[response.requestId]
        elif response.completeStateResponse.HasField("alteredFields"):
            if lasting.followed is not None:
                lasting.followed.apply(response.completeStateResponse)
        elif kind in _ACCEPTING and lasting.is_repeated:
            lasting.is_repeated = False
            return _missed_event(lasting, response)
        elif kind in _ACCEPTING and not lasting.is_accepted:
            _accept(lasting, response.completeStateResponse)
        return response

    def _remove_unanswered(self, request_id: str) -> None:
        """Remove the oldest request with this id: a workload can send several requests with the same one."""
        for at, (waiting, _) in enumerate(self._unanswered):
            if waiting == request_id:
                del self._unanswered[at]
                return

    def forget(self, request_id: str) -> None:
        """Do not send this request again."""
        self._lasting.pop(request_id, None)

    def repeat(self, since: str) -> Iterator[Request]:
        """Yield the requests to send again at the begin of a session; logs continue at this time (RFC 3339)."""
        for lasting in self._lasting.values():
            if not lasting.is_accepted:
                continue
            lasting.is_repeated = True
            again = _copy(lasting.request)
            if again.HasField("logsRequest"):
                again.logsRequest.since = since
                again.logsRequest.ClearField("tail")
            yield again


def _accept(lasting: _LastingRequest, response: CompleteStateResponse) -> None:
    lasting.is_accepted = True
    subscription = lasting.request.completeStateRequest
    if subscription.subscribeForEvents:
        lasting.followed = FollowedState(subscription.fieldMask, response.completeState)


def _missed_event(lasting: _LastingRequest, response: Response) -> Response | None:
    if lasting.followed is None:
        return None
    return lasting.followed.catch_up(response.requestId, response.completeStateResponse.completeState)


def _copy(request: Request) -> Request:
    copied = Request()
    copied.CopyFrom(request)
    return copied
