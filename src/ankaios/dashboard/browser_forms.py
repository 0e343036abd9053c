"""Manifests of browsers as update requests, and responses of the server as plain data for browsers. Pure."""

from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from ankaios.common.manifest import change_of, load_manifest
from ankaios.common.model.state import COMPLETE_STATE, EXECUTION_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml
from ankaios.dashboard.change_log import instance_state_text
from ankaios.dashboard.cluster_form import instance_entry


def manifest_update(manifest: str) -> base.UpdateStateRequest:
    """As `ank apply` does it. Raises `Rejected` with the reason."""
    change = change_of([load_manifest(manifest, "the manifest")])
    new_state = COMPLETE_STATE.from_form({"desiredState": change.desired_state})
    return base.UpdateStateRequest(newState=new_state, updateMask=change.masks)


def message_form(message: Message) -> dict[str, Any]:
    form: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return form


def plan_form(plan: base.PlanResponse) -> dict[str, Any]:
    form = message_form(plan)
    for change in (*form["workloads"], *form["entries"]):
        change["action"] = change["action"].removeprefix("PLANNED_").lower()
    return form


def history_form(history: base.HistoryResponse) -> dict[str, Any]:
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


def record_form(record: base.WorkloadRecord) -> dict[str, Any]:
    name = record.instanceName
    entry = instance_entry(name.agentName, name.id, EXECUTION_STATE.to_form(record.executionState))
    return {
        "time": record.timeMs,
        "agent": name.agentName,
        "state": instance_state_text(entry),
        "info": entry["info"],
        "health": entry["health"]["status"] if entry["health"] else "",
        "exitCode": record.exitCode if record.HasField("exitCode") else None,
        "output": list(record.output),
    }
