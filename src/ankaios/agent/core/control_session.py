"""One session with a workload over its control interface: handshake, then requests.

Input: frames from the workload. Output: the reaction, such as an answer, a request to forward, or the end of the
session. The module owns the state of the handshake.
"""

from google.protobuf.message import DecodeError
from msgspec import Struct

from ankaios.agent.core.authorizer import Authorizer
from ankaios.agent.core.framing import Garbage, possible_last_frames
from ankaios.agent.core.health import HealthResult, notification
from ankaios.common.errors import Rejected
from ankaios.common.messages import REQUEST_ID_SEPARATOR, error_response
from ankaios.common.pb.ank_base_pb2 import Request, Response
from ankaios.common.pb.control_api_pb2 import ConnectionClosed, ControlInterfaceAccepted, FromAnkaios, ToAnkaios
from ankaios.common.version import check_version_compatibility

ACCESS_DENIED = "Access denied"
NEW_STATE_MISSING = "The UpdateStateRequest has no newState"
LONGEST_HELLO = 128
HELLO_MISSING = "Initial Hello missing!"
UNDECODABLE = "Could not decode protobuf data"


class Accept(Struct, frozen=True):
    """Accept the hello of the workload; waiting messages can follow."""


class Answer(Struct, frozen=True):
    response: Response


class Forward(Struct, frozen=True):
    """Forward to the server, with an id that routes the response back to the workload."""

    request: Request


class Close(Struct, frozen=True):
    """Send the reason and end the session."""

    reason: str


class Skip(Struct, frozen=True):
    """Log the frame, but send no answer."""

    why: str


class Notified(Struct, frozen=True):
    """A health notification of the workload. It needs no access rule."""

    result: HealthResult


Reaction = Accept | Answer | Forward | Close | Skip | Notified
ACCEPTED = FromAnkaios(controlInterfaceAccepted=ControlInterfaceAccepted()).SerializeToString()


def closed_message(reason: str) -> bytes:
    return FromAnkaios(connectionClosed=ConnectionClosed(reason=reason)).SerializeToString()


def response_message(response: Response) -> bytes:
    return FromAnkaios(response=response).SerializeToString()


def last_hello(left_behind: bytes) -> bytes | None:
    """Return the hello at the end of the data that a workload wrote while no agent ran.

    A workload sends a hello immediately after it detects the end of an agent. The Rust SDK does not repeat a hello that
    it could write, and writing is possible as long as the old agent's end of the pipe is open.
    """
    for frame in possible_last_frames(left_behind, LONGEST_HELLO):
        message = _decode(frame)
        if message is not None and message.HasField("hello") and _is_compatible(message.hello.protocolVersion):
            return frame
    return None


def request_id_of(frame: bytes | Garbage) -> str | None:
    """Return the request id if the frame contains a request."""
    message = _decode(frame)
    return message.request.requestId if message is not None and message.HasField("request") else None


def _is_compatible(version: str) -> bool:
    try:
        check_version_compatibility(version)
    except Rejected:
        return False
    return True


class ControlSession:
    """Accepts every valid hello, because a restarted workload sends a new one."""

    def __init__(self, workload: str, authorizer: Authorizer) -> None:
        self._workload = workload
        self._authorizer = authorizer
        self.accepted = False
        self.dead = False

    def acceptance_failed(self) -> None:
        """The acceptance could not be written, so the workload has to send a hello again."""
        self.accepted = False

    def receive(self, frame: bytes | Garbage) -> Reaction:
        message = _decode(frame)
        match message.WhichOneof("ToAnkaiosEnum") if message else None:
            case "hello" if message:
                return self._accept(message.hello.protocolVersion)
            case "request" if message and self.accepted:
                return self._request(message.request)
            case "healthNotification" if message and self.accepted:
                report = message.healthNotification
                return Notified(notification(is_healthy=report.healthy, text=report.text))
            case _ if self.accepted:
                return Skip(frame.why if isinstance(frame, Garbage) else "no message that this agent understands")
            case _:
                return self._close(UNDECODABLE if message is None else HELLO_MISSING)

    def _accept(self, version: str) -> Reaction:
        try:
            check_version_compatibility(version)
        except Rejected as refusal:
            return self._close(str(refusal))
        self.accepted = True
        return Accept()

    def _close(self, reason: str) -> Close:
        self.accepted, self.dead = False, True
        return Close(reason)

    def _request(self, request: Request) -> Reaction:
        if not self._authorizer.allows(request):
            return Answer(error_response(request.requestId, ACCESS_DENIED))
        if request.HasField("updateStateRequest") and not request.updateStateRequest.HasField("newState"):
            # The server would close the connection of the agent after this request.
            return Answer(error_response(request.requestId, NEW_STATE_MISSING))
        # [impl->swdd~agent-adds-workload-prefix-id-control-interface-request~1]
        request.requestId = f"{self._workload}{REQUEST_ID_SEPARATOR}{request.requestId}"
        return Forward(request)


def _decode(frame: bytes | Garbage) -> ToAnkaios | None:
    if isinstance(frame, Garbage):
        return None
    try:
        return ToAnkaios.FromString(frame)
    except DecodeError:
        return None
