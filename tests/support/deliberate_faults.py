"""Deliberate faults of the product: the simulation must find each of them.

Each fault replaces one function or method, as a mistake in a change could. `tools/simulation_sensitivity.py` plays
seeds with each fault until an invariant is violated, and prints the table of docs/simulation.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from ankaios.agent import server_link, workload_task
from ankaios.agent.core import dependencies, workload_lifecycle
from ankaios.agent.core.authorizer import Authorizer
from ankaios.agent.core.followed_state import FollowedState
from ankaios.agent.core.workload_events import Deleted, Identified
from ankaios.agent.server_link import Outbox
from ankaios.agent.workload_operations import WorkloadOperations
from ankaios.agent.workload_task import WorkloadTask
from ankaios.common.workload import WorkloadSpec
from ankaios.devices.claim_store import ClaimStore
from ankaios.devices.core.slot_ledger import SlotLedger
from ankaios.devices.slot_allocator import SlotAllocator
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.grpc.server_call import ServerCall
from ankaios.middleware import client
from ankaios.middleware.server import MiddlewareServer
from ankaios.server.commit_queue import CommitQueue
from ankaios.server.core import change_committer, update_request_handler
from ankaios.server.core.event_handler import EventHandler
from ankaios.server.core.replies import Decision
from ankaios.server.core.state_interests import StateInterests
from ankaios.server.state_leader import StateLeader
from ankaios.simulation.runtime import SimulatedRuntime
from ankaios.storage.core import etcd_transactions
from ankaios.storage.core.etcd_transactions import put_key
from ankaios.storage.etcd import etcd_election
from ankaios.storage.etcd.etcd_election import EtcdElection
from ankaios.storage.leader_election import Leadership
from ankaios.storage.pb.etcd_api_pb2 import Compare, TxnRequest
from ankaios.storage.sqlite.sqlite_store import SqliteStore


class DeliberateFault(Struct, frozen=True):
    """`owner.name` is replaced by `make(original)`. `storage` is the store that the fault concerns, if any."""

    title: str
    owner: Any
    name: str
    make: Callable[[Any], Any]
    storage: str | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        with patch.object(self.owner, self.name, self.make(getattr(self.owner, self.name))):
            yield


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _original: lambda *_args, **_options: value


def _every(number: int, otherwise: Callable[..., Any]) -> Callable[[Any], Any]:
    """Every n-th call does something else."""

    def make(original: Any) -> Any:
        calls = 0

        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return otherwise(*args, **options) if calls % number == 0 else original(*args, **options)

        return call

    return make


async def _nothing(*_args: Any, **_options: Any) -> None:
    return None


def _answer_first(original: Any) -> Any:
    def submit(self: CommitQueue, decision: Decision) -> None:
        self._perform(decision.effects)
        original(self, Decision([], decision.change))

    return submit


def _twice(original: Any) -> Any:
    return lambda *args: [item for item in original(*args) for _ in range(2)]


def _swapped(original: Any) -> Any:
    """Every fifth message to a peer is sent after the one that follows it."""
    counts: WeakKeyDictionary[ServerCall, int] = WeakKeyDictionary()
    held: WeakKeyDictionary[ServerCall, bytes] = WeakKeyDictionary()

    def send(self: MiddlewareServer, call: ServerCall, data: bytes) -> None:
        counts[call] = counts.get(call, 0) + 1
        if counts[call] % 5 == 0:
            held[call] = data
            return
        original(self, call, data)
        if call in held:
            original(self, call, held.pop(call))

    return send


def _freed_early(original: Any) -> Any:
    async def delete(self: WorkloadTask, spec: WorkloadSpec, runtime_id: str | None) -> Any:
        await self._services.devices.release(spec.instance_name)
        return await original(self, spec, runtime_id)

    return delete


async def _true(*_args: Any) -> bool:
    return True


def _leads_without_check(_original: Any) -> Any:
    """The leader key is written even if another server has written it."""

    async def create(self: EtcdElection, lease: int) -> int:
        value = msgspec.json.encode(self._candidate)
        request = TxnRequest(success=[put_key(self._keys.leader, value, lease)])
        return (await self._client.txn(request, float(self._seconds))).header.revision

    return create


def _rollback_to_current(original: Any) -> Any:
    def change(history: Any, desired: Any, request: Any, tags: Any) -> Any:
        return original(history, desired, type(request)(revision=history.current, workloads=request.workloads), tags)

    return change


def _without_guard(_original: Any) -> Any:
    return lambda _key, _revision: Compare(key=b"missing", target=Compare.CREATE, create_revision=0)


async def _deleted(*_args: Any) -> Deleted:
    return Deleted()


async def _not_found(*_args: Any) -> Identified:
    return Identified(None)


async def _no_workloads(*_args: Any) -> list[Any]:
    return []


def _load_without_newest(original: Any) -> Any:
    async def load(self: SqliteStore) -> Any:
        stored = await original(self)
        entries = dict(stored.entries)
        if entries:
            entries.pop(max(entries))
        return type(stored)(entries, stored.revisions, stored.records, stored.last_revision)

    return load


FAULTS = (
    DeliberateFault("a change is acknowledged before it is stored", CommitQueue, "submit", _answer_first, "sqlite"),
    DeliberateFault("changes are not stored", SqliteStore, "commit", lambda _: _nothing, "sqlite"),
    DeliberateFault("every fifth change is not stored", SqliteStore, "commit", _every(5, _nothing), "sqlite"),
    DeliberateFault("an entry is lost when the state is loaded", SqliteStore, "load", _load_without_newest, "sqlite"),
    DeliberateFault("events are sent twice", EventHandler, "events", _twice),
    DeliberateFault("every fifth event is lost", EventHandler, "events", _every(5, lambda *_: [])),
    DeliberateFault("a reported state reaches no subscriber", EventHandler, "take_events", _every(7, lambda _: [])),
    DeliberateFault("dependencies are ignored", dependencies, "may_start", _always(True)),
    DeliberateFault("dependencies are never met", dependencies, "may_start", _always(False)),
    DeliberateFault("deletes wait for ever", dependencies, "may_stop", _always(False)),
    DeliberateFault("a container is not deleted", WorkloadTask, "_delete", lambda _: _deleted),
    DeliberateFault("every third delete does nothing", WorkloadTask, "_delete", _every(3, _deleted)),
    DeliberateFault(
        "a restarted agent does not list containers", SimulatedRuntime, "existing_workloads", lambda _: _no_workloads
    ),
    DeliberateFault("a container is not found again", WorkloadTask, "_identify", lambda _: _not_found),
    DeliberateFault(
        "the last state is not repeated", Outbox, "go_offline", lambda _: lambda self: self._queue.go_offline()
    ),
    DeliberateFault("containers are not watched", WorkloadTask, "_watch", _always(None)),
    DeliberateFault("every third watch is missing", WorkloadTask, "_watch", _every(3, lambda *_: None)),
    DeliberateFault(
        "states are lost while there is no connection",
        Outbox,
        "put_state",
        _every(4, lambda *_: None),
    ),
    DeliberateFault("a silent peer is not noticed", AsyncConnection, "_check_keepalive", _always(None)),
    DeliberateFault("failed starts are not retried", workload_task, "retry_limit", _always(10_000_000.0)),
    DeliberateFault("failed starts are retried without a delay", workload_task, "retry_limit", _always(0.0)),
    DeliberateFault(
        "agents receive no states of workloads that others depend on",
        StateInterests,
        "completed",
        lambda _: lambda _self, effects: list(effects),
    ),
    DeliberateFault(
        "every fourth update is not sent to agents", change_committer, "updates_for_agents", _every(4, lambda *_: [])
    ),
    DeliberateFault("messages are sent in the wrong order", MiddlewareServer, "_send", _swapped),
    DeliberateFault("slots are not released", SlotAllocator, "release", _always(None)),
    DeliberateFault(
        "a slot is given twice, because every second claim is not recorded",
        SlotLedger,
        "_write",
        _every(2, lambda *_: None),
    ),
    DeliberateFault("a slot is freed before the container is deleted", WorkloadTask, "_delete", _freed_early),
    DeliberateFault("claims are not written", ClaimStore, "save", _always(None)),
    DeliberateFault(
        "the states of other agents are forgotten late", WorkloadOperations, "forget_other_agents", _always(set())
    ),
    DeliberateFault(
        "restart policies are ignored", workload_lifecycle, "_restart", lambda _: lambda w, _state: (w, [])
    ),
    DeliberateFault("deletes do not wait for dependents", dependencies, "may_stop", _always(True)),
    DeliberateFault(
        "a leader commands although its lease has ended",
        etcd_election,
        "valid_until",
        lambda _: lambda sent_at, _seconds: sent_at + 1000.0,
        "etcd",
    ),
    DeliberateFault(
        "a leader works without a pause when its lease has ended",
        Leadership,
        "is_valid",
        lambda _: property(lambda _: True),
        "etcd",
    ),
    DeliberateFault(
        "a server becomes the leader although another one leads",
        EtcdElection,
        "_create_leader_key",
        _leads_without_check,
        "etcd",
    ),
    DeliberateFault("writes of an old leader are accepted", etcd_transactions, "has_revision", _without_guard, "etcd"),
    DeliberateFault("a failed commit is acknowledged", StateLeader, "_is_stored", lambda _: _true, "sqlite"),
    DeliberateFault("access rules are not checked", Authorizer, "allows", _always(True)),
    DeliberateFault("the response to an update is lost", MiddlewareServer, "dispatch", _every(9, lambda *_: None)),
    DeliberateFault("a container is observed for ever", WorkloadTask, "_stop_watching", _always(None)),
    DeliberateFault("connections are not closed", client, "_close", lambda _: _nothing),
    DeliberateFault("connections are retried without a delay", server_link, "reconnect_pause", _always(0.0)),
    DeliberateFault(
        "a workload does not receive the changes of the time without a connection",
        FollowedState,
        "catch_up",
        _always(None),
    ),
    DeliberateFault("a rollback changes nothing", update_request_handler, "change_by_rollback", _rollback_to_current),
)
