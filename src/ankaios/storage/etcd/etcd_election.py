"""Elects one of several servers that share an etcd cluster.

Input: who this server is. Output: a `Leadership`. The leader owns the leader key, which etcd deletes
when the leader's lease ends. The term of a leadership is the revision of etcd at which its leader key was created, so
a later leader has a higher term, and every write can be guarded with it.

The leadership ends in this process before the lease can end in etcd (`core/lease_rules.py`).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from ankaios.common.supervision import run_once
from ankaios.storage.core.etcd_layout import KeySpace
from ankaios.storage.core.etcd_transactions import get_key, has_revision, put_key
from ankaios.storage.core.lease_rules import DEFAULT_SECONDS, attempt_limit, renewal_interval, valid_until
from ankaios.storage.etcd.etcd_client import READ_LIMIT, RETRY_SECONDS, EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdUnavailable
from ankaios.storage.leader_election import Candidate, Leadership
from ankaios.storage.pb.etcd_api_pb2 import TxnRequest
from ankaios.storage.state_store import StorageFailed

_KEEPER = "the lease of the leader"

_log = logging.getLogger(__name__)


def seconds_since_boot() -> float:
    """A clock that is never set back, and that also counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class EtcdElection:
    def __init__(
        self,
        client: EtcdClient,
        keys: KeySpace,
        candidate: Candidate,
        seconds: int = DEFAULT_SECONDS,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """`seconds` is the time to live of the lease."""
        self.leadership: Leadership | None = None
        self._client = client
        self._keys = keys
        self._candidate = candidate
        self._seconds = seconds
        self._clock = clock
        self._lease = 0
        self._keeper: asyncio.Task[None] | None = None

    async def campaign(self) -> Leadership:
        await self.resign()
        while True:
            try:
                leader = await self._client.read(self._keys.leader)
                if not leader.kvs and (leadership := await self._try_to_lead()) is not None:
                    return leadership
                await self._client.wait_for_change(self._keys.leader, leader.header.revision, self._seconds)
            except EtcdUnavailable as failure:
                _log.warning("No leader can be elected: %s", failure)
                await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_lead(self) -> Leadership | None:
        """Create the leader key with a new lease; None if another server was faster."""
        sent_at = self._clock()
        self._lease, granted = await self._client.grant_lease(self._seconds, READ_LIMIT)
        try:
            term = await self._create_leader_key(self._lease)
        except StorageFailed:
            await self._client.revoke_lease(self._lease)
            raise
        leadership = Leadership(term or 0, self._clock, valid_until(sent_at, granted))
        if term is None or not leadership.is_valid:
            await self._client.revoke_lease(self._lease)
            return None
        self._start_keeper(leadership)
        return leadership

    async def _create_leader_key(self, lease: int) -> int | None:
        """Return the term, or None if there is another leader."""
        leader, value = self._keys.leader, msgspec.json.encode(self._candidate)
        request = TxnRequest(
            compare=[has_revision(leader, 0)], success=[put_key(leader, value, lease)], failure=[get_key(leader)]
        )
        response = await self._client.txn(request, float(self._seconds))
        if response.succeeded:
            return response.header.revision
        found = response.responses[0].response_range.kvs
        return found[0].create_revision if found and found[0].lease == lease else None

    def _start_keeper(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self._keeper = asyncio.create_task(self._keep_supervised(leadership), name=_KEEPER)

    async def _keep_supervised(self, leadership: Leadership) -> None:
        """Without renewal there is no leadership, for any reason."""
        await run_once(_KEEPER, lambda: self._keep(leadership), leadership.end)
        leadership.end("the lease is not renewed any more")

    async def _keep(self, leadership: Leadership) -> None:
        """Renew the lease until that is not possible any more."""
        while leadership.is_valid:
            await asyncio.sleep(min(renewal_interval(self._seconds), leadership.seconds_left))
            try:
                async with asyncio.timeout(leadership.seconds_left):
                    if not await self._renew(leadership):
                        leadership.end("etcd has ended the lease of this server")
            except (StorageFailed, TimeoutError) as failure:
                leadership.end(f"the lease could not be renewed in time: {failure or 'no response'}")
            await self._check_leader_key(leadership)

    async def _renew(self, leadership: Leadership) -> bool:
        sent_at, left = self._clock(), leadership.seconds_left
        granted = await self._client.renew_lease(self._lease, left, attempt_limit(self._seconds))
        if granted > 0:
            leadership.extend(valid_until(sent_at, granted))
        return granted > 0

    async def _check_leader_key(self, leadership: Leadership) -> None:
        """An operator may delete the key to force an election. If it cannot be read, the renewal decides."""
        with suppress(StorageFailed):
            limit = min(attempt_limit(self._seconds), leadership.seconds_left)
            found = (await self._client.read(self._keys.leader, limit)).kvs
            if not found or found[0].create_revision != leadership.term:
                leadership.end("the leader key was deleted" if not found else "another server has become the leader")

    async def resign(self) -> None:
        if self.leadership is not None:
            self.leadership.end("the server has resigned")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
            self._keeper = None
            await self._client.revoke_lease(self._lease)
