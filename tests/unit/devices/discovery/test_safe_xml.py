"""XML from the network is parsed or rejected."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ankaios.devices.discovery.onvif.safe_xml import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, MalformedXml, parse_xml
from tests.support.examples import examples

BOMB = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><l>&c;</l>"""


def test_elements_are_found_by_local_name_whatever_their_namespace() -> None:
    root = parse_xml(b'<a:one xmlns:a="x"><two xmlns="y"> text </two><two>again</two></a:one>')
    assert root.tag == "one"
    assert [child.text for child in root.iter("two")] == [" text ", "again"]
    assert root.findtext("two") == " text "
    assert root.find("two/three") is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (BOMB, "document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "document type"),
        (b"<!DOCTYPE a><a/>", "document type"),
        (b"<a>&undefined;</a>", "undefined entity"),
        (b"<a>" * (MAX_DEPTH + 1), "deeper"),
        (b"<a>" + b"<b/>" * MAX_ELEMENTS + b"</a>", "elements"),
        (b"<a>" + b" " * MAX_BYTES + b"</a>", "bytes"),
        (b"", "no element"),
        (b"<a>", "no element"),
        (b"<a></b>", "mismatched"),
        (b"\x00\xff\xfe", "syntax error|invalid"),
        (b'<?xml version="1.0" encoding="no-such-encoding"?><a/>', "encoding"),
        (b'<?xml version="1.0" encoding="utf-7"?><a/>', "encoding"),
    ],
)
def test_hostile_or_broken_documents_are_rejected(data: bytes, words: str) -> None:
    with pytest.raises(MalformedXml, match=words):
        parse_xml(data)


@given(st.binary(max_size=200) | st.text("<>/a!b&;\"'= ?[]-", max_size=60).map(str.encode))
@example(b"<a xmlns:b=''/>")
@example(b'<?xml version="1.0" encoding="utf-16"?><a/>')
@examples(200)
def test_any_bytes_are_a_tree_or_rejected(data: bytes) -> None:
    with suppress(MalformedXml):
        parse_xml(data)


@given(st.sampled_from(["utf-8", "latin-1", "idna", "rot13", "hex", "punycode", "utf-32", "big5", "zlib", "undefined"]))
def test_any_declared_encoding_is_decoded_or_rejected(encoding: str) -> None:
    with suppress(MalformedXml):
        assert parse_xml(f'<?xml version="1.0" encoding="{encoding}"?><a/>'.encode()).tag == "a"
