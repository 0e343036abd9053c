"""What the names and texts of a desired state must look like, checked for the entries that change.

[impl->swdd~server-desired-state-field-conventions~1]
"""

from collections.abc import Mapping
from typing import Any

from ankaios.common.errors import Rejected
from ankaios.common.model.state import API_VERSION, DEPRECATED_API_VERSION, DEVICE_CONFIGURATION
from ankaios.common.names import (
    check_agent_name,
    check_config_item_key,
    check_config_reference,
    check_filter_mask,
    check_log_rule_name,
    check_workload_name,
)
from ankaios.common.state_manipulation import Form
from ankaios.devices.core.configuration import check_configurations
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.replicas import check_replicas


def check_api_version(version: str) -> None:
    """[impl->swdd~update-desired-state-with-invalid-version~1]
    [impl->swdd~update-desired-state-with-missing-version~1]
    """
    if version not in (API_VERSION, DEPRECATED_API_VERSION):
        raise Rejected(f"Unsupported API version. Received '{version}', expected '{API_VERSION}'")


def check_config_item(key: str, item: Any) -> None:
    """The keys of all maps in the item, however deep they are."""
    check_config_item_key(key)
    _check_keys_within(item)


def _check_keys_within(item: Any) -> None:
    if isinstance(item, dict):
        for key, below in item.items():
            check_config_item(key, below)
    elif isinstance(item, list):
        for below in item:
            _check_keys_within(below)


def check_config_references(configs: Mapping[str, str]) -> None:
    for alias, key in configs.items():
        check_config_reference(alias, key)


def check_device_configuration_name(name: str) -> None:
    try:
        check_workload_name(name)
    except Rejected as fault:
        raise Rejected(str(fault).replace("workload name", "device configuration name", 1)) from fault


def check_device_configurations(desired: Form, changes: Mapping[str, Form | None]) -> None:
    """Names must stay unambiguous among all configurations, so those that do not change are checked too."""
    if changes:
        after = {**desired.get("deviceConfigurations", {}), **changes}
        check_configurations(
            {name: DEVICE_CONFIGURATION.from_form(form) for name, form in after.items() if form is not None}
        )


def check_rendered_workload(workload: RenderedWorkload) -> None:
    """Some fields have their final content only now.

    [impl->swdd~server-state-triggers-validation-of-workload-fields~1]
    """
    check_workload_name(workload.instance_name.workload)
    check_agent_name(workload.form["agent"])
    check_replicas(workload.instance_name.workload, workload.form)
    for rules in workload.form.get("controlInterfaceAccess", {}).values():
        for rule in rules:
            _check_rule(rule)


def _check_rule(rule: Form) -> None:
    for mask in rule.get("filterMasks", ()):
        check_filter_mask(mask)
    for name in rule.get("workloadNames", ()):
        check_log_rule_name(name)
