from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.common.errors import Rejected
from ankaios.common.model.scalars import Text
from ankaios.common.names import (
    AGENT_NAME_PATTERN,
    CONSTRAINT_TEXT,
    FILTER_MASK_PATTERN,
    LOG_RULE_NAME_PATTERN,
    MAX_NAME_LENGTH,
    NAME_PATTERN,
    check_agent_name,
    check_config_item_key,
    check_config_reference,
    check_filter_mask,
    check_log_rule_name,
    check_workload_name,
)

LONGEST = "a" * 63
TOO_LONG = "a" * 64
ODD = ["a b", "a.b", "ä", "a/b", "a\n", "a@b"]


def fault(check: object, *names: str) -> str:
    assert callable(check)
    with pytest.raises(Rejected) as caught:
        check(*names)
    return str(caught.value)


def test_workload_names_follow_the_convention() -> None:
    """[utest->swdd~common-workload-naming-convention~1]"""
    for good in ("a", "A-Z_09", LONGEST):
        check_workload_name(good)
    assert fault(check_workload_name, "") == "Unsupported workload name ''. Is empty."
    for odd in ODD:
        expected = f"Unsupported workload name '{odd}'. Expected to have characters in [a-zA-Z0-9_-]."
        assert fault(check_workload_name, odd) == expected
    assert fault(check_workload_name, TOO_LONG).endswith("Length 64 exceeds the maximum limit of 63 characters.")


def test_characters_are_checked_before_the_length() -> None:
    assert "characters in" in fault(check_workload_name, "." * 64)


def test_agent_names_may_be_empty_and_long_and_have_the_allowed_characters() -> None:
    """[utest->swdd~common-agent-naming-convention~3]"""
    for good in ("", "agent_A", "a" * 200):
        check_agent_name(good)
    for odd in ODD:
        assert fault(check_agent_name, odd) == f"Unsupported agent name '{odd}'. {CONSTRAINT_TEXT}"


def test_config_item_keys_follow_the_convention() -> None:
    """[utest->swdd~common-config-item-key-naming-convention~1]"""
    check_config_item_key(LONGEST)
    for bad in ("", TOO_LONG, *ODD):
        assert fault(check_config_item_key, bad) == f"Unsupported config item key '{bad}'. {CONSTRAINT_TEXT}"


def test_config_aliases_and_references_follow_the_convention() -> None:
    """[utest->swdd~common-config-aliases-and-config-reference-keys-naming-convention~1]"""
    check_config_reference(LONGEST, "key-1")
    for bad in ("", TOO_LONG, *ODD):
        assert fault(check_config_reference, bad, "k") == f"Unsupported config alias '{bad}'. {CONSTRAINT_TEXT}"
        assert fault(check_config_reference, "a", bad) == f"Unsupported config reference key '{bad}'. {CONSTRAINT_TEXT}"


def test_filter_masks_are_not_empty_and_made_of_names_and_wildcards() -> None:
    """[utest->swdd~common-access-rules-filter-mask-convention~1]"""
    for good in ("*", "desiredState", "desiredState.workloads.*.agent", "*.a-b_c"):
        check_filter_mask(good)
    assert fault(check_filter_mask, "") == "Empty filter masks are not allowed in Control Interface access rules"
    for bad in (".", "a.", ".a", "a..b", "a*", "**", "a b", "a\n"):
        expected = (
            f"Unsupported filter mask '{bad}'. Only \".\" separated sequences allowed where each part is either "
            'a wildcard "*" or chars in [a-zA-Z0-9_-]'
        )
        assert fault(check_filter_mask, bad) == expected


def test_names_in_log_rules_can_match_a_workload() -> None:
    """[utest->swdd~common-access-rules-logs-workload-names-convention~1]"""
    for good in ("*", "web", "web*", "*web", "w*b", "a" * 63 + "*"):
        check_log_rule_name(good)
    assert fault(check_log_rule_name, "a*b*") == "Expected at most one '*' symbol."
    prefix = "Log rule validation filed: Unsupported workload name"
    assert fault(check_log_rule_name, "") == f"{prefix} ''. Is empty."
    assert fault(check_log_rule_name, "a.b").startswith(f"{prefix} 'a.b'. Expected to have characters")
    assert fault(check_log_rule_name, "a.*").startswith(f"{prefix} filter with wildcard 'a.*'. Expected to have")
    too_long = "a" * 64 + "*"
    assert fault(check_log_rule_name, too_long).startswith(f"{prefix} filter with wildcard '{too_long}'. Length")


@pytest.mark.parametrize(
    ("pattern", "check"),
    [
        (NAME_PATTERN, check_workload_name),
        (NAME_PATTERN, check_config_item_key),
        (AGENT_NAME_PATTERN, check_agent_name),
        (FILTER_MASK_PATTERN, check_filter_mask),
        (LOG_RULE_NAME_PATTERN, check_log_rule_name),
    ],
)
def test_the_pattern_in_the_schema_and_the_check_of_the_server_agree(
    pattern: str, check: Callable[[str], None]
) -> None:
    @given(st.text("aZ_-.*ä \n", max_size=6) | st.text("a", min_size=62, max_size=MAX_NAME_LENGTH))
    def agrees(text: str) -> None:
        if list(Text(pattern, MAX_NAME_LENGTH).violations(text, "")):
            fault(check, text)
        else:
            check(text)

    agrees()
