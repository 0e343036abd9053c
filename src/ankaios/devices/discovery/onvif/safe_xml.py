"""Reads XML that a stranger sent.

In: bytes from the network. Out: a tree of elements by local name, or `MalformedXml`. Document types and entities are
refused, size, depth and number of elements are bounded, so an answer can waste neither memory nor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.parsers import expat

from msgspec import Struct, field

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 4096


class MalformedXml(ValueError):
    """The answer is not acceptable XML."""


class Element(Struct):
    """Namespaces are left out: devices in the field use them carelessly, and local names are enough."""

    name: str
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def descendants(self, name: str) -> Iterator[Element]:
        """All elements of that name below this one, in document order."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.descendants(name)

    def first(self, *path: str) -> Element | None:
        """The first child of a child ... along the path."""
        found: Element | None = self
        for name in path:
            found = next((child for child in found.children if child.name == name), None) if found else None
        return found


def parse_xml(data: bytes) -> Element:
    """The root element."""
    if len(data) > MAX_BYTES:
        raise MalformedXml(f"more than {MAX_BYTES} bytes")
    builder = _Builder()
    try:
        builder.parser.Parse(data, True)
    # An encoding that Python does not know, or whose decoder fails, is reported in its own ways.
    except (expat.ExpatError, LookupError, ValueError, TypeError) as error:
        raise MalformedXml(str(error)) from error
    return builder.document.children[0]  # without one the parser had complained


class _Builder:
    def __init__(self) -> None:
        self.document = Element("")
        self._open = [self.document]
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        # Entities can only be declared in a document type, so this one refusal closes the door to all of them.
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS or len(self._open) > MAX_DEPTH:
            raise MalformedXml(f"more than {MAX_ELEMENTS} elements or nested deeper than {MAX_DEPTH}")
        element = Element(name.rpartition(" ")[2])
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, name: str) -> None:
        self._open.pop()

    def _data(self, data: str) -> None:
        self._open[-1].text += data

    def _refuse_doctype(self, *declaration: object) -> None:
        raise MalformedXml("a document type is declared")
