"""What this project says beyond Eclipse Ankaios, and to whom it may say it.

Comes in: messages, response headers. Goes out: whether the one may be sent to the sender of the other. Owns nothing.

To a server of Eclipse Ankaios a message it does not know is one without content, at which it ends the stream and
counts the agent as gone. So ours tells in the headers of its answer that it knows more.
"""

from collections.abc import Mapping

from ankaios.common.pb.grpc_api_pb2 import ToServer

_NAME = "ankaios-additions"
ADDITIONS_HEADER = (_NAME, "devices")
_FIRST_NUMBER = 1000  # of the fields that this project adds


def knows_additions(response_headers: Mapping[str, str]) -> bool:
    return _NAME in response_headers


def is_addition(message: ToServer) -> bool:
    kind = message.WhichOneof("ToServerEnum")
    return kind is not None and ToServer.DESCRIPTOR.fields_by_name[kind].number >= _FIRST_NUMBER
