"""Manifests of browsers as update requests, and plans as plain data. Pure."""

from typing import Any

from google.protobuf.json_format import MessageToDict

from ankaios.common.manifest import change_of, load_manifest
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base


def update_request(manifest: str) -> base.UpdateStateRequest:
    """As `ank apply` does it. Raises `Rejected` with the reason."""
    change = change_of([load_manifest(manifest, "the manifest")])
    new_state = COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    return base.UpdateStateRequest(newState=new_state, updateMask=change.masks)


def plan_as_form(plan: base.PlanResponse) -> dict[str, Any]:
    form: dict[str, Any] = MessageToDict(plan, always_print_fields_with_no_presence=True)
    for workload in form["workloads"]:
        workload["action"] = workload["action"].removeprefix("PLANNED_").lower()
    for entry in form["entries"]:
        entry["action"] = entry["action"].removeprefix("PLANNED_").lower()
    return form
