"""Message classes out of a serialized description: what the generated `_pb2` modules call.

The loader of the protobuf package imports twenty modules (text format, pure Python encoders and decoders, symbol
database) before the first class exists, 40 ms at every start of a program. With its C implementation none of them is
needed: the classes are made from the description alone. Where that implementation is missing, the loader of the package
does it as ever.
"""

from __future__ import annotations

import sys
from typing import Any


def load(name: str, serialized: bytes) -> None:
    """Fill the module of that name with the classes, enums and enum values of the description."""
    module = vars(sys.modules[name])
    try:
        from google._upb import _message as upb
    except ImportError:
        _load_as_ever(name, serialized, module)
        return
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
    from google.protobuf.message import Message

    def build(description: Any, outer: str) -> Any:
        qualified = outer + description.name
        members: dict[str, Any] = {inner.name: build(inner, f"{qualified}.") for inner in description.nested_types}
        members |= {"DESCRIPTOR": description, "__module__": name, "__qualname__": qualified}
        return upb.MessageMeta(description.name, (Message,), members)

    file: Any = upb.default_pool.AddSerializedFile(serialized)
    module["DESCRIPTOR"] = file
    for enum in file.enum_types_by_name.values():
        module[enum.name] = EnumTypeWrapper(enum)
        module.update((value.name, value.number) for value in enum.values)
    for description in file.message_types_by_name.values():
        module[description.name] = build(description, "")


def _load_as_ever(name: str, serialized: bytes, module: dict[str, Any]) -> None:
    from google.protobuf import descriptor_pool
    from google.protobuf.internal import builder

    module["DESCRIPTOR"] = file = descriptor_pool.Default().AddSerializedFile(serialized)
    builder.BuildMessageAndEnumDescriptors(file, module)
    builder.BuildTopDescriptorsAndMessages(file, name, module)
