"""The tables behind the numbers of header fields."""

import pytest
from hpack.table import HeaderTable

from ankaios.middleware.http2_engine.errors import COMPRESSION_ERROR, ProtocolError
from ankaios.middleware.http2_engine.hpack_tables import MAX_TABLE_SIZE, STATIC_TABLE, FieldTable


def test_the_static_table_is_that_of_the_rfc() -> None:
    assert tuple(tuple(field) for field in HeaderTable.STATIC_TABLE) == STATIC_TABLE


def test_the_newest_field_has_the_lowest_number_after_the_static_ones() -> None:
    table = FieldTable()
    table.add((b"a", b"1"))
    table.add((b"b", b"2"))
    assert [table[1], table[61], table[62], table[63]] == [
        (b":authority", b""),
        (b"www-authenticate", b""),
        (b"b", b"2"),
        (b"a", b"1"),
    ]


@pytest.mark.parametrize("index", [0, 64, 1000, 2**28])
def test_an_entry_that_does_not_exist_is_refused(index: int) -> None:
    table = FieldTable()
    table.add((b"a", b"1"))
    table.add((b"b", b"2"))
    with pytest.raises(ProtocolError) as failure:
        table[index]
    assert failure.value.code == COMPRESSION_ERROR


def test_the_oldest_fields_make_room() -> None:
    table = FieldTable()
    table.resize(3 * 34)
    for number in range(5):
        table.add((b"a", b"%d" % number))
    assert [table[62][1], table[63][1], table[64][1]] == [b"4", b"3", b"2"]
    with pytest.raises(ProtocolError):
        table[65]


def test_a_field_larger_than_the_table_empties_it() -> None:
    table = FieldTable()
    table.add((b"a", b"1"))
    table.add((b"b", bytes(MAX_TABLE_SIZE)))
    with pytest.raises(ProtocolError):
        table[62]
    table.add((b"c", b"3"))
    assert table[62] == (b"c", b"3")


def test_a_smaller_table_keeps_the_newest() -> None:
    table = FieldTable()
    table.add((b"a", b"1"))
    table.add((b"b", b"2"))
    table.resize(34)
    assert table[62] == (b"b", b"2")
    with pytest.raises(ProtocolError):
        table[63]
    table.resize(0)
    with pytest.raises(ProtocolError):
        table[62]


def test_a_table_larger_than_ours_is_refused() -> None:
    FieldTable().resize(MAX_TABLE_SIZE)
    with pytest.raises(ProtocolError) as failure:
        FieldTable().resize(MAX_TABLE_SIZE + 1)
    assert failure.value.code == COMPRESSION_ERROR
