from typing import Any

import pytest

from ankaios.common.errors import Rejected
from ankaios.common.names import CONSTRAINT_TEXT
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.conventions import (
    check_api_version,
    check_config_item,
    check_config_references,
    check_device_configuration_name,
    check_rendered_workload,
)
from tests.unit.server.scenario import a_form


def rule(kind: str, *texts: str) -> dict[str, Any]:
    if kind == "LogRule":
        return {"type": kind, "workloadNames": list(texts)}
    return {"type": kind, "operation": "Read", "filterMasks": list(texts)}


def check(name: str = "web", **parts: Any) -> None:
    check_rendered_workload(RenderedWorkload.of(name, {**a_form(), **parts}))


def test_the_api_version_is_v1_or_the_deprecated_one() -> None:
    """[utest->swdd~update-desired-state-with-invalid-version~1]
    [utest->swdd~update-desired-state-with-missing-version~1]
    """
    check_api_version("v1")
    check_api_version("v0.1")
    for wrong in ("", "v2", "1", "v1 "):
        with pytest.raises(Rejected) as caught:
            check_api_version(wrong)
        assert str(caught.value) == f"Unsupported API version. Received '{wrong}', expected 'v1'"


@pytest.mark.parametrize(
    "item",
    [{"a b": "x"}, {"a": {"a b": "x"}}, [{"a b": "x"}], [[{"a b": "x"}]], {"a": [[{"b": [{"a b": []}]}]]}],
)
def test_keys_of_config_items_are_checked_however_deep_they_are(item: Any) -> None:
    check_config_item("good", {"a": ["x y", {"b": "x y"}]})
    with pytest.raises(Rejected) as caught:
        check_config_item("good", item)
    assert str(caught.value) == f"Unsupported config item key 'a b'. {CONSTRAINT_TEXT}"


def test_references_to_configs_are_checked() -> None:
    check_config_references({"a": "b"})
    with pytest.raises(Rejected, match="Unsupported config alias 'a b'"):
        check_config_references({"a b": "c"})
    with pytest.raises(Rejected, match="Unsupported config reference key 'b c'"):
        check_config_references({"a": "b c"})


@pytest.mark.parametrize(
    ("name", "parts", "reason"),
    [
        ("", {}, "Unsupported workload name ''. Is empty."),
        ("a.b", {}, "Unsupported workload name 'a.b'. Expected to have characters in [a-zA-Z0-9_-]."),
        ("a" * 64, {},
         f"Unsupported workload name '{'a' * 64}'. Length 64 exceeds the maximum limit of 63 characters."),
        ("web", {"agent": "a b"}, f"Unsupported agent name 'a b'. {CONSTRAINT_TEXT}"),
        ("web", {"controlInterfaceAccess": {"allowRules": [rule("StateRule", "ok", "")]}},
         "Empty filter masks are not allowed in Control Interface access rules"),
        ("web", {"controlInterfaceAccess": {"denyRules": [rule("StateRule", "a b")]}},
         "Unsupported filter mask 'a b'. Only \".\" separated sequences allowed where each part is either "
         'a wildcard "*" or chars in [a-zA-Z0-9_-]'),
        ("web", {"controlInterfaceAccess": {"allowRules": [rule("LogRule", "**")]}},
         "Expected at most one '*' symbol."),
        ("web", {"controlInterfaceAccess": {"denyRules": [rule("LogRule", "a b")]}},
         "Log rule validation filed: Unsupported workload name 'a b'. Expected to have characters in [a-zA-Z0-9_-]."),
        ("web", {"controlInterfaceAccess": {"denyRules": [rule("LogRule", "a b*")]}},
         "Log rule validation filed: Unsupported workload name filter with wildcard 'a b*'. "
         "Expected to have characters in [a-zA-Z0-9_-]."),
    ],
)  # fmt: skip
def test_a_rendered_workload_keeps_the_conventions(name: str, parts: dict[str, Any], reason: str) -> None:
    """[utest->swdd~server-state-triggers-validation-of-workload-fields~1]"""
    with pytest.raises(Rejected) as caught:
        check(name, **parts)
    assert str(caught.value) == reason


def test_parts_unknown_to_the_server_are_not_checked() -> None:
    check(agent="", tags={"any key": "any value"}, dependencies={"not there": "ADD_COND_RUNNING"}, runtime="any")
    check(agent="a" * 100)
    check(controlInterfaceAccess={"allowRules": [rule("StateRule", "a.*.b"), rule("LogRule", "*")]})


def test_device_configurations_are_named_like_workloads() -> None:
    check_device_configuration_name("cam")
    with pytest.raises(Rejected) as caught:
        check_device_configuration_name("")
    assert str(caught.value) == "Unsupported device configuration name ''. Is empty."
