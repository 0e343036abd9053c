"""Naming rules and the error texts for names that break them. All lengths are in bytes.

[impl->swdd~common-workload-naming-convention~1]
[impl->swdd~common-agent-naming-convention~3]
[impl->swdd~common-config-item-key-naming-convention~1]
[impl->swdd~common-config-aliases-and-config-reference-keys-naming-convention~1]
[impl->swdd~common-access-rules-filter-mask-convention~1]
[impl->swdd~common-access-rules-logs-workload-names-convention~1]
"""

from ankaios.common.errors import Rejected

MAX_NAME_LENGTH = 63
# The name of a device instance is the configuration name with seven more characters.
MAX_DEVICE_CONFIGURATION_NAME_LENGTH = MAX_NAME_LENGTH - 7
MAX_REPLICAS = 1000

# The same rules for the JSON schema of manifests. Each pattern describes the whole text.
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
AGENT_NAME_PATTERN = r"^(?:[a-zA-Z0-9_-]|\{\{[a-zA-Z0-9_-]+(?:\.[a-zA-Z0-9_-]+)*\}\})*$"
FILTER_MASK_PATTERN = r"^(?:\*|[a-zA-Z0-9_-]+)(?:\.(?:\*|[a-zA-Z0-9_-]+))*$"
LOG_RULE_NAME_PATTERN = r"^(?:[a-zA-Z0-9_-]+|[a-zA-Z0-9_-]*\*[a-zA-Z0-9_-]*)$"
ABSOLUTE_PATH_PATTERN = r"^/[^\0]*$"
RESOURCE_NAME_PATTERN = r"^(?:[a-zA-Z0-9_.-]+(?:/[a-zA-Z0-9_.-]+)?|\{\{PLACEHOLDER\}\})$"

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
CHARACTERS_TEXT = "Expected to have characters in [a-zA-Z0-9_-]."
CONSTRAINT_TEXT = "Only a-z, A-Z, 0-9 chars, underscore (_), and hyphen (-) allowed. Maximum length is 63 characters."


def has_allowed_characters(text: str) -> bool:
    return _ALLOWED.issuperset(text)


def _name_fault(name: str, limit: int) -> str | None:
    if not name:
        return "Is empty."
    if not has_allowed_characters(name):
        return CHARACTERS_TEXT
    if (length := len(name.encode())) > limit:
        return f"Length {length} exceeds the maximum limit of {limit} characters."
    return None


def check_workload_name(name: str) -> None:
    if fault := _name_fault(name, MAX_NAME_LENGTH):
        raise Rejected(f"Unsupported workload name '{name}'. {fault}")


def check_agent_name(name: str) -> None:
    """An empty name is allowed: the workload is not scheduled."""
    if not has_allowed_characters(name):
        raise Rejected(f"Unsupported agent name '{name}'. {CONSTRAINT_TEXT}")


def _is_key(text: str) -> bool:
    return bool(text) and len(text) <= MAX_NAME_LENGTH and has_allowed_characters(text)


def check_config_item_key(key: str) -> None:
    if not _is_key(key):
        raise Rejected(f"Unsupported config item key '{key}'. {CONSTRAINT_TEXT}")


def check_config_reference(alias: str, key: str) -> None:
    if not _is_key(alias):
        raise Rejected(f"Unsupported config alias '{alias}'. {CONSTRAINT_TEXT}")
    if not _is_key(key):
        raise Rejected(f"Unsupported config reference key '{key}'. {CONSTRAINT_TEXT}")


def check_filter_mask(mask: str) -> None:
    if not mask:
        raise Rejected("Empty filter masks are not allowed in Control Interface access rules")
    if not all(part == "*" or (part and has_allowed_characters(part)) for part in mask.split(".")):
        raise Rejected(
            f"Unsupported filter mask '{mask}'. Only \".\" separated sequences allowed where each part is either "
            'a wildcard "*" or chars in [a-zA-Z0-9_-]'
        )


def check_log_rule_name(pattern: str) -> None:
    """A pattern that can match no workload is rejected: an ineffective deny rule would grant too much."""
    stars = pattern.count("*")
    if stars > 1:
        raise Rejected("Expected at most one '*' symbol.")
    if stars == 0:
        if fault := _name_fault(pattern, MAX_NAME_LENGTH):
            raise Rejected(f"Log rule validation filed: Unsupported workload name '{pattern}'. {fault}")
        return
    rest = pattern.replace("*", "")
    fault = _name_fault(rest, MAX_NAME_LENGTH) if rest else None
    if fault:
        raise Rejected(
            f"Log rule validation filed: Unsupported workload name filter with wildcard '{pattern}'. {fault}"
        )
