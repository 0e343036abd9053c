"""Suggestions of similar names."""

from ankaios.common.suggestions import did_you_mean, nearest, similar_or_known


def test_the_nearest_name_is_found_in_any_case() -> None:
    assert nearest("wbe", ["db", "web", "cache"]) == "web"
    assert nearest("WEB", ["db", "web"]) == "web"
    assert nearest("agnet", ["Agent"]) == "Agent"


def test_only_a_close_match_is_suggested() -> None:
    assert nearest("zzz", ["db", "web"]) is None
    assert nearest("x", []) is None
    assert nearest("worker-1", ["workload"]) is None
    assert nearest("playOptions", ["generalOptions"]) is None


def test_hints_name_the_similar_name_or_the_existing_names() -> None:
    assert did_you_mean("workload", "wbe", ["web"]) == "unknown workload 'wbe'; did you mean 'web'?"
    assert did_you_mean("workload", "x", []) == "unknown workload 'x'; none exists"
    assert similar_or_known("wbe", ["web"]) == "did you mean 'web'?"
    assert did_you_mean("device", "zz", "abcdefg") == "unknown device 'zz'; known: 'a', 'b', 'c', 'd', 'e' and 2 more"
