"""Manifests of browsers as update requests, and plans and revisions as plain data. Pure."""

from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict

from ankaios.common.manifest import change_of, load_manifest
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml


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


def history_as_form(history: base.HistoryResponse) -> dict[str, Any]:
    """Newest first."""
    return {"current": history.current, "revisions": [_revision(one) for one in reversed(history.revisions)]}


def _revision(revision: base.RevisionInfo) -> dict[str, Any]:
    return {
        "number": revision.number,
        "time": revision.timeMs,
        "requester": revision.requester,
        "note": revision.note,
        "entries": [
            {
                "kind": entry.kind,
                "name": entry.name,
                "before": _as_yaml(entry.before) if entry.HasField("before") else None,
                "after": _as_yaml(entry.after) if entry.HasField("after") else None,
            }
            for entry in revision.entries
        ],
    }


def _as_yaml(text: str) -> str:
    return dump_yaml(msgspec.json.decode(text))
