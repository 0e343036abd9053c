"""Made by scripts/generate-proto from ankaios/common/pb/control_api.proto."""

from ankaios.common.pb import ank_base_pb2  # noqa: F401
from ankaios.common.message_loader import load

load(
    "ankaios.common.pb.control_api_pb2",
    b'\n#ankaios/common/pb/control_api.proto\x12\x0fankaios.control\x1a ankaios/common/pb/ank_base.proto"o\n\tToAn'
    b"kaios\x12'\n\x05hello\x18\x01 \x01(\x0b2\x16.ankaios.control.HelloH\x00\x12(\n\x07request\x18\x03 \x01(\x0b2\x15.ankaios.base.RequestH\x00B\x0f\n\rToAn"
    b'kaiosEnum" \n\x05Hello\x12\x17\n\x0fprotocolVersion\x18\x02 \x01(\t"\xda\x01\n\x0bFromAnkaios\x12*\n\x08response\x18\x03 \x01(\x0b2\x16.ankaios.base.Res'
    b'ponseH\x00\x12M\n\x18controlInterfaceAccepted\x18\x04 \x01(\x0b2).ankaios.control.ControlInterfaceAcceptedH\x00\x12=\n\x10connec'
    b'tionClosed\x18\x05 \x01(\x0b2!.ankaios.control.ConnectionClosedH\x00B\x11\n\x0fFromAnkaiosEnum"\x1a\n\x18ControlInterfaceAcce'
    b'pted""\n\x10ConnectionClosed\x12\x0e\n\x06reason\x18\x01 \x01(\tb\x06proto3'
)
