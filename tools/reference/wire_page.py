"""The page about messages: the .proto files as tables. They are read line by line, with their comments.

A test compares what is read here with the compiled messages, so a line that is not understood cannot get lost.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ankaios.middleware.methods import Method
from tools.reference.markdown import code, heading, link, page_of, table

PROTO = Path(__file__).resolve().parents[2] / "proto"
FILES = {
    "ankaios/common/pb/ank_base.proto": ("base", "State and requests"),
    "ankaios/common/pb/grpc_api.proto": ("grpc", "Server, agents and command lines"),
    "ankaios/common/pb/control_api.proto": ("control", "Workload and agent: the control interface"),
    "ankaios/devices/pb/discovery.proto": ("discovery", "Agent and discovery handlers"),
    "ankaios/devices/pb/device_plugin.proto": ("deviceplugin", "Agent and device plugins"),
    "ankaios/devices/pb/pod_resources.proto": ("podresources", "Who holds which device"),
}
OURS = 1000
CALLERS = {Method.AGENT: "`ank-agent`", Method.CLI: "`ank` and other programs", Method.COMMAND: "the same, newer path"}
ROOTS = {("grpc", "ToServer"), ("grpc", "FromServer"), ("control", "ToAnkaios"), ("control", "FromAnkaios")}
_BLOCK = re.compile(r"(message|enum|oneof) (\w+) \{(\})?")
_FIELD = re.compile(r"(?:(optional|repeated) )?(map<\w+, [\w.]+>|[\w.]+) (\w+) = (\d+);")
_VALUE = re.compile(r"(\w+) = (\d+);")
_MAP = re.compile(r"map<(\w+), ([\w.]+)>")
_TAG = re.compile(r"\[impl->[^\]]*\]")


@dataclass
class Field:
    number: int
    name: str
    type: str = ""
    label: str = ""
    oneof: str = ""
    comment: str = ""


@dataclass
class Block:
    """A message or an enum."""

    kind: str
    name: str
    comment: str
    fields: list[Field] = field(default_factory=list)


@dataclass
class ProtoFile:
    package: str
    comment: str
    blocks: list[Block]


Name = tuple[str, str]
"""Package, without what all have in common, and name of a message or enum."""
Blocks = Mapping[Name, Block]


def page() -> str:
    files = {name: read_proto((PROTO / name).read_text(encoding="utf-8")) for name in FILES}
    known = {(FILES[name][0], block.name): block for name, file in files.items() for block in file.blocks}
    theirs = _reached(known)
    parts: list[str] = []
    for name, file in files.items():
        parts += _file(name, file, known, theirs)
    return page_of(
        "Wire",
        "proto/**/*.proto",
        "Programs exchange Protocol Buffers (proto3): over gRPC between server, agents and command lines, and over two "
        "FIFOs between a workload and its agent, where each message is preceded by its length as a varint. Fields with "
        f"numbers from {OURS} on are **ours**: peers of Eclipse Ankaios skip them. Package names differ from theirs; "
        "they are not sent.",
        table(("method", "who calls"), [(code(method.value), CALLERS[method]) for method in Method]),
        "Each is a stream of [ToServer](#grpc-ToServer) answered by a stream of [FromServer](#grpc-FromServer). The "
        "first message is a hello with the version of the protocol; its major number must be that of the server.",
        *parts,
    )


def _reached(known: Blocks) -> set[Name]:
    """All messages of Eclipse Ankaios: reached without a field of this project."""
    reached: set[Name] = set()
    waiting = list(ROOTS)
    while waiting:
        one = waiting.pop()
        if one not in known or one in reached:
            continue
        reached.add(one)
        waiting += [_named(_MAP.sub(r"\2", part.type), one[0]) for part in known[one].fields if part.number < OURS]
    return reached


def _named(text: str, package: str) -> Name:
    outer, _, bare = text.rpartition(".")
    return outer.rpartition(".")[2] or package, bare


def _file(name: str, file: ProtoFile, known: Blocks, theirs: set[Name]) -> Iterator[str]:
    short, title = FILES[name]
    yield heading(2, title, short)
    yield f"`{name}`"
    if file.comment:
        yield file.comment
    for block in file.blocks:
        yield heading(3, block.name, f"{short}-{block.name}")
        if short in {package for package, _ in theirs} and (short, block.name) not in theirs:
            yield "**Ours.**"
        if block.comment:
            yield block.comment
        yield _block(block, short, known)


def _block(block: Block, short: str, known: Blocks) -> str:
    if not block.fields:
        return "No fields."
    if block.kind == "enum":
        return table(("number", "value"), [(str(one.number), code(one.name)) for one in block.fields])
    rows = [(str(one.number), code(one.name), _type(one, short, known), _notes(one)) for one in block.fields]
    return table(("number", "field", "type", "notes"), rows)


def _type(one: Field, short: str, known: Blocks) -> str:
    if pair := _MAP.fullmatch(one.type):
        return f"map of {pair[1]} to {_linked(pair[2], short, known)}"
    return f"{one.label} {_linked(one.type, short, known)}".strip()


def _linked(name: str, short: str, known: Blocks) -> str:
    package, bare = _named(name, short)
    return link(bare, f"{package}-{bare}") if (package, bare) in known else name


def _notes(one: Field) -> str:
    ours = "**ours**" if one.number >= OURS else ""
    one_of = f"one of `{one.oneof}`" if one.oneof else ""
    return ". ".join(note for note in (ours, one_of, one.comment) if note)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_proto(text: str) -> ProtoFile:
    """A comment describes the next element; the first one describes the file."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line.strip())
    return ProtoFile(reader.package, reader.file_comment, sorted(reader.blocks, key=lambda block: block.kind == "enum"))


class _Reader:
    def __init__(self) -> None:
        self.package = ""
        self.file_comment = ""
        self.blocks: list[Block] = []
        self._comment: list[str] = []
        self._open: list[Block | str] = []

    def take(self, line: str) -> None:
        if line.startswith("//"):
            self._comment.append(line.removeprefix("//").strip())
        elif line.startswith("syntax"):
            self.file_comment = self._taken()
        elif line.startswith("package"):
            self.package = line.removeprefix("package ").removesuffix(";")
        elif not line:
            self._comment = []  # a remark about what comes, not about the next message
        elif line == "}":
            self._open.pop()
        elif begun := _BLOCK.fullmatch(line):
            self._begin(begun[1], begun[2], closed=bool(begun[3]))
        else:
            self._put(line)

    def _taken(self) -> str:
        text, self._comment = _TAG.sub("", "\n".join(self._comment)).strip(), []
        return text

    def _begin(self, kind: str, name: str, closed: bool) -> None:
        if kind == "oneof":
            self._open.append(name)
            return
        block = Block(kind, name, self._taken())
        self.blocks.append(block)
        if not closed:
            self._open.append(block)

    def _put(self, line: str) -> None:
        if not self._open:
            return  # import and the like
        owner = next(one for one in reversed(self._open) if isinstance(one, Block))
        oneof = self._open[-1] if isinstance(self._open[-1], str) else ""
        comment = self._taken()
        if owner.kind == "enum" and (value := _VALUE.fullmatch(line)):
            owner.fields.append(Field(int(value[2]), value[1], comment=comment))
        elif found := _FIELD.fullmatch(line):
            owner.fields.append(Field(int(found[4]), found[3], found[2], found[1] or "", oneof, comment))
        else:
            raise ValueError(f"cannot read '{line}'")
