import pytest

from ankaios.common.errors import Rejected
from ankaios.devices.core.extended_resource import check_resource_name, pick_ids


@pytest.mark.parametrize("name", ["akri.sh/cam", "nvidia.com/gpu", "a/B_c.d-9", "x/" + "n" * 63])
def test_names_that_a_kubelet_accepts_are_accepted(name: str) -> None:
    check_resource_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "cam",
        "",
        "/cam",
        "akri.sh/",
        "kubernetes.io/x",
        "a.kubernetes.io/x",
        "requests.a/x",
        "Akri.sh/x",
        "a/b/c",
        "a/-x",
        "a/" + "n" * 64,
        "d" * 250 + "/x",
        "a..b/x",
    ],
)
def test_names_that_a_kubelet_rejects_are_rejected(name: str) -> None:
    with pytest.raises(Rejected, match="no extended resource"):
        check_resource_name(name)


@pytest.mark.parametrize(
    ("free", "preferred", "quantity", "expected"),
    [
        (["a", "b", "c"], [], 2, ["a", "b"]),
        (["a", "b", "c"], ["c"], 2, ["c", "a"]),
        (["a", "b"], ["x", "b", "b"], 2, ["b", "a"]),
        (["a"], ["a"], 2, []),
        ([], [], 0, []),
    ],
)
def test_a_preference_is_followed_as_far_as_possible(
    free: list[str], preferred: list[str], quantity: int, expected: list[str]
) -> None:
    assert pick_ids(free, preferred, quantity) == expected
