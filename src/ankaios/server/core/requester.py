"""The requester of a request: a command connection, or a workload through its agent.

Inside the server the id of a request begins with its sender: `<connection>@ID` or `<agent>@<workload>@ID`.
"""

from msgspec import Struct

from ankaios.common.messages import REQUEST_ID_SEPARATOR, ClientIdentity
from ankaios.common.pb import ank_base_pb2 as base


class Requester(Struct, frozen=True):
    """`peer` is the agent or connection; a command connection has no workload."""

    peer: str
    workload: str = ""


def workload_requester(agent: str, request_id: str) -> Requester | None:
    """None if the id does not name the workload of the agent; such a request can open nothing."""
    parts = request_id.split(REQUEST_ID_SEPARATOR, 2)
    return Requester(agent, parts[1]) if len(parts) == 3 and parts[0] == agent and parts[1] else None


class UpdateOrigin(Struct, frozen=True):
    """Where an update comes from. `requester_text`, `masks` and `note` are for the history.

    `wants_revision`: the requester supports revisions, so the response contains it. `is_plan`: the requester wants to
    see what the update would do. `atomic`: the change is monitored, and undone if it fails.
    """

    request_id: str
    requester_text: str
    masks: tuple[str, ...] = ()
    requester: Requester | None = None
    wants_revision: bool = False
    note: str = ""
    is_plan: bool = False
    atomic: base.AtomicOptions | None = None


def origin_of(request: base.Request, requester: Requester | None, sender: ClientIdentity) -> UpdateOrigin:
    """Clients of this project send a user; programs of Eclipse Ankaios do not."""
    text = str(sender)
    if requester is not None and requester.workload:
        text = f"workload '{requester.workload}' on agent '{requester.peer}'"
    wants_revision = bool(sender.user)
    if request.HasField("rollbackRequest"):
        wanted = request.rollbackRequest
        note = f"restores revision {wanted.revision}"
        masks = tuple(f"desiredState.workloads.{name}" for name in wanted.workloads)
        atomic = wanted.atomic if wanted.HasField("atomic") else None
        return UpdateOrigin(request.requestId, text, masks, requester, True, note, atomic=atomic)
    update = requested_update(request)
    return UpdateOrigin(
        request_id=request.requestId,
        requester_text=text,
        masks=tuple(update.updateMask),
        requester=requester,
        wants_revision=wants_revision or update.HasField("ifRevision"),
        is_plan=request.HasField("planRequest"),
        atomic=update.atomic if update.HasField("atomic") else None,
    )


def requested_update(request: base.Request) -> base.UpdateStateRequest:
    """The update to apply or to plan."""
    return request.planRequest.update if request.HasField("planRequest") else request.updateStateRequest
