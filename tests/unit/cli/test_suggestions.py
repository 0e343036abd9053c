"""Similar names."""

from ankaios.cli.suggestions import did_you_mean, nearest


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
    assert did_you_mean("workload", "wbe", ["web"]) == "there is no workload 'wbe', did you mean 'web'?"
    assert did_you_mean("workload", "x", []) == "there is no workload 'x', there are none at all"
    assert did_you_mean("device", "zz", "abcdefg") == (
        "there is no device 'zz', there are 'a', 'b', 'c', 'd', 'e' and 2 more"
    )
