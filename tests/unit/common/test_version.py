import pytest

from ankaios.common.errors import Rejected
from ankaios.common.version import PROTOCOL_VERSION, check_version_compatibility


@pytest.mark.parametrize(
    "good", [PROTOCOL_VERSION, "1.0.0", "1.0.1", "1.1.0-pre", "1.99.7-rc.1+build.5", "1.0.0+x", "1.0.0--"]
)
def test_versions_of_the_same_major_number_work_together(good: str) -> None:
    """[utest->swdd~common-version-checking~1]"""
    check_version_compatibility(good)


@pytest.mark.parametrize(
    "bad",
    ["", "1", "1.0", "v1.0.0", "1.0.0.0", "0.9.0", "2.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", " 1.0.0",
     "1.0.0\n", "1.x.0"],
)  # fmt: skip
def test_other_and_unreadable_versions_are_rejected_with_the_supported_version(bad: str) -> None:
    """[utest->swdd~common-version-checking~1]"""
    with pytest.raises(Rejected) as caught:
        check_version_compatibility(bad)
    assert str(caught.value) == f"Unsupported protocol version '{bad}'. Currently supported '1'"
