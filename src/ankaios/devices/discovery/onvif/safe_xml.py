"""Parses XML from the network.

Input: bytes. Output: a tree of elements by local name, or `MalformedXml`. Document types, and with them entities, are
refused; size, depth and number of elements are limited, so that a document can waste neither memory nor time.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 4096


class MalformedXml(ValueError):
    """The document is not acceptable XML."""


class _LimitedBuilder(ElementTree.TreeBuilder):
    """Drops namespaces, which devices use carelessly, and attributes, which are not needed."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._count += 1
        self._depth += 1
        if self._count > MAX_ELEMENTS or self._depth > MAX_DEPTH:
            raise MalformedXml(f"more than {MAX_ELEMENTS} elements or nested deeper than {MAX_DEPTH}")
        return super().start(tag.rpartition("}")[2], {})

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag.rpartition("}")[2])

    def doctype(self, *declaration: object) -> None:
        raise MalformedXml("a document type is declared")


def parse_xml(data: bytes) -> Element:
    """The root element."""
    if len(data) > MAX_BYTES:
        raise MalformedXml(f"more than {MAX_BYTES} bytes")
    parser = ElementTree.XMLParser(target=_LimitedBuilder())
    try:
        parser.feed(data)
        root: Element = parser.close()
    # An encoding that is unknown or whose decoder fails raises one of the other errors.
    except (ElementTree.ParseError, LookupError, ValueError, TypeError) as error:
        raise MalformedXml(str(error)) from error
    return root
