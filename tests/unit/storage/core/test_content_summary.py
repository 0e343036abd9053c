from hypothesis import given
from hypothesis import strategies as st

from ankaios.storage.core.content_summary import digests_of, row_checksum

checksums = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(checksums, unique=True))
def test_a_digest_does_not_depend_on_the_order_of_rows(rows: list[int]) -> None:
    shuffled = sorted(rows)
    assert digests_of(("s", row) for row in rows) == digests_of(("s", row) for row in shuffled)


@given(st.lists(checksums, unique=True, min_size=1), checksums)
def test_replacing_a_row_gives_the_digest_of_the_new_rows(rows: list[int], new: int) -> None:
    before, after = digests_of(("s", row) for row in rows)["s"], digests_of(("s", row) for row in [*rows[1:], new])["s"]
    assert before.replaced(rows[0], new) == after
    assert after.replaced(new, None).replaced(None, rows[0]) == before


def test_the_checksum_depends_on_set_name_and_value() -> None:
    texts = [("entry/a", "n", b"v"), ("entry/b", "n", b"v"), ("entry/a", "m", b"v"), ("entry/a", "n", b"w")]
    assert len({row_checksum(*text) for text in texts}) == len(texts)
