"""Requests for records and causes, and the subscriptions for new records.

Input: requests, records of agents, and what has been recorded while a message was handled. Output: effects. Owns the
subscriptions.
"""

import logging
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.messages import Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.proto_conversion import record_from_pb, record_to_pb
from ankaios.common.state_records import StateRecord
from ankaios.server.core.causes import explain
from ankaios.server.core.owned_requests import OwnedRequests
from ankaios.server.core.replies import refuse, refuse_too_many
from ankaios.server.core.requester import Requester
from ankaios.server.core.rights import RequesterRights
from ankaios.server.core.waiting_reasons import ClusterFacts

_log = logging.getLogger(__name__)

# Whether the requester may read the output of a workload.
MayReadOutput = Callable[[str], bool]


class _Subscription(Struct, frozen=True):
    workloads: frozenset[str]
    may_read_output: MayReadOutput


class RecordRequestHandler:
    def __init__(self, facts: ClusterFacts, rights: RequesterRights) -> None:
        self._records = facts.state.records
        self._facts = facts
        self._rights = rights
        self._subscriptions: OwnedRequests[_Subscription] = OwnedRequests()

    def request(self, request_id: str, wanted: base.RecordsRequest, owner: Requester) -> Respond:
        may_read_output = self._rights.readable_logs(owner)
        if wanted.follow and not self._subscriptions.has_room(owner):
            return refuse_too_many(request_id, "subscriptions for records")
        if wanted.follow:
            self._subscriptions.put(request_id, owner, _Subscription(frozenset(wanted.workloads), may_read_output))
            self._records.keeps_added = True
        found = self._records.select(tuple(wanted.workloads), wanted.sinceMs if wanted.HasField("sinceMs") else -1)
        return _response(request_id, found, may_read_output)

    def why(self, request_id: str, workload: str, requester: Requester) -> Respond:
        may_read_output = self._rights.readable_logs(requester)
        causes = explain(workload, self._facts)
        if not causes:
            return refuse(request_id, f"unknown workload '{workload}'")
        for cause in causes:
            if not may_read_output(cause.workload):
                del cause.output[:]
        return Respond(base.Response(requestId=request_id, whyResponse=base.WhyResponse(causes=causes)))

    def from_agent(self, agent: str, messages: Iterable[base.WorkloadRecord]) -> None:
        """An agent sends records of its own workloads only."""
        for message in messages:
            try:
                record = record_from_pb(message)
                if record.name.agent != agent:
                    raise Rejected(f"it is about '{record.name}'")
            except Rejected as fault:
                _log.warning("Dropped a record of agent '%s': %s.", agent, fault)
                continue
            self._records.amend(record)

    def cancel(self, request_id: str) -> None:
        self._subscriptions.remove(request_id)
        self._records.keeps_added = bool(self._subscriptions)

    def cancel_of_peer(self, peer: str) -> None:
        self._subscriptions.remove_of_peer(peer)
        self._records.keeps_added = bool(self._subscriptions)

    def new_records(self) -> list[Respond]:
        """The records of the message that was handled, for those who subscribed to them."""
        if not self._subscriptions or not (added := self._records.take_added()):
            return []
        responses = []
        for request_id, subscription in self._subscriptions.items():
            if chosen := [it for it in added if _is_chosen(it, subscription.workloads)]:
                responses.append(_response(request_id, chosen, subscription.may_read_output))
        return responses


def _is_chosen(record: StateRecord, workloads: Collection[str]) -> bool:
    return not workloads or record.name.workload in workloads


def _response(request_id: str, records: Iterable[StateRecord], may_read_output: MayReadOutput) -> Respond:
    messages = []
    for record in records:
        message = record_to_pb(record)
        if not may_read_output(record.name.workload):
            del message.output[:]
        messages.append(message)
    return Respond(base.Response(requestId=request_id, recordsResponse=base.RecordsResponse(records=messages)))
