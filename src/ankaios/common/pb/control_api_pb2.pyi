from ankaios.common.pb import ank_base_pb2 as _ank_base_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToAnkaios(_message.Message):
    __slots__ = ("hello", "request", "healthNotification")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HEALTHNOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    request: _ank_base_pb2.Request
    healthNotification: HealthNotification
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., request: _Optional[_Union[_ank_base_pb2.Request, _Mapping]] = ..., healthNotification: _Optional[_Union[HealthNotification, _Mapping]] = ...) -> None: ...

class HealthNotification(_message.Message):
    __slots__ = ("healthy", "text")
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    healthy: bool
    text: str
    def __init__(self, healthy: bool = ..., text: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocolVersion",)
    PROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    protocolVersion: str
    def __init__(self, protocolVersion: _Optional[str] = ...) -> None: ...

class FromAnkaios(_message.Message):
    __slots__ = ("response", "controlInterfaceAccepted", "connectionClosed")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CONTROLINTERFACEACCEPTED_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONCLOSED_FIELD_NUMBER: _ClassVar[int]
    response: _ank_base_pb2.Response
    controlInterfaceAccepted: ControlInterfaceAccepted
    connectionClosed: ConnectionClosed
    def __init__(self, response: _Optional[_Union[_ank_base_pb2.Response, _Mapping]] = ..., controlInterfaceAccepted: _Optional[_Union[ControlInterfaceAccepted, _Mapping]] = ..., connectionClosed: _Optional[_Union[ConnectionClosed, _Mapping]] = ...) -> None: ...

class ControlInterfaceAccepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConnectionClosed(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
