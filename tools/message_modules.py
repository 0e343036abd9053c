"""The `_pb2.py` modules of a set of descriptions: `message_modules.py FILE OUT`, called by scripts/generate-proto.

FILE is what `protoc --descriptor_set_out` writes; one module for each description goes below OUT.
"""

import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

_WIDTH = 96


def module_text(description: FileDescriptorProto) -> str:
    """What others of ours it needs is loaded first; the rest is one call with the serialized description."""
    name = _module(description.name)
    lines = [f'"""Made by scripts/generate-proto from {description.name}."""', ""]
    for needed in description.dependency:
        package, _, module = _module(needed).rpartition(".")
        lines.append(f"from {package} import {module}  # noqa: F401")
    lines += ["from ankaios.common.message_loader import load", "", "load(", f'    "{name}",']
    for message in description.message_type:
        _drop_json_names(message)
    serialized = description.SerializeToString(deterministic=True)
    lines += [f"    {serialized[start : start + _WIDTH]!r}" for start in range(0, len(serialized), _WIDTH)]
    return "\n".join([*lines, ")", ""])


def _drop_json_names(message: DescriptorProto) -> None:
    """They follow from the names, and are a third of the description."""
    for field in message.field:
        field.ClearField("json_name")
    for inner in message.nested_type:
        _drop_json_names(inner)


def _module(proto_file: str) -> str:
    return proto_file.removesuffix(".proto").replace("/", ".") + "_pb2"


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    for description in FileDescriptorSet.FromString(source.read_bytes()).file:
        path = out / (description.name.removesuffix(".proto") + "_pb2.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(module_text(description))


if __name__ == "__main__":
    main()
