"""The health in the additional information of a workload."""

import pytest

from ankaios.common.health_words import add_health_words, remove_health_words


@pytest.mark.parametrize("status", ["Starting", "Healthy", "Unhealthy"])
@pytest.mark.parametrize("info", ["", "note"])
def test_added_words_can_be_removed(status: str, info: str) -> None:
    assert remove_health_words(add_health_words(info, status, ""), status, "") == info


@pytest.mark.parametrize(("info", "kept"), [("", "no response"), ("note", "note, no response")])
def test_the_reason_of_the_health_is_kept(info: str, kept: str) -> None:
    added = add_health_words(info, "Unhealthy", "no response")
    assert remove_health_words(added, "Unhealthy", "no response") == kept


def test_information_after_the_health_is_kept() -> None:
    info = add_health_words("", "Unhealthy", "a, b") + ", restart in 2s"
    assert remove_health_words(info, "Unhealthy", "a, b") == "a, b, restart in 2s"


@pytest.mark.parametrize("status", ["", "Unknown", "Healthy"])
def test_other_information_is_unchanged(status: str) -> None:
    assert remove_health_words("unhealthy: x", status, "y") == "unhealthy: x"
