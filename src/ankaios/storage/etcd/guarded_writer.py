"""Sends guarded transactions as the leader, again and again until their result is known.

Input: transactions of `core/etcd_transactions.py`. Output: success, or one of the errors of `state_store.py`. Owns
nothing; the leadership decides how long it is tried.
"""

import asyncio

from ankaios.storage.core.etcd_transactions import is_committed, is_leader
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdRejected, EtcdUnavailable
from ankaios.storage.leader_election import Leadership
from ankaios.storage.pb.etcd_api_pb2 import TxnRequest, TxnResponse
from ankaios.storage.state_store import UNKNOWN_TEXT, CommitUnknown, NotLeader, StorageFailed

WRITE_LIMIT, _PAUSE_SECONDS = 10.0, 0.02
_NO_SPACE = "database space exceeded"


class GuardedWriter:
    def __init__(self, client: EtcdClient, leadership: Leadership) -> None:
        self.leadership = leadership
        self.revision = 0
        """The revision of etcd after the last write."""
        self._client = client

    async def write(self, request: TxnRequest) -> None:
        """Execute a transaction that may be executed several times, and that makes no commit valid."""
        try:
            response = await self._send(request)
        except CommitUnknown as failure:
            raise StorageFailed(f"cannot write to etcd: {failure}") from failure
        except NotLeader as failure:
            raise NotLeader(str(failure)) from failure
        if not is_leader(response, self.leadership.term):
            raise self._deposed()

    async def commit(self, request: TxnRequest, after: bytes) -> None:
        """Execute a commit exactly once, or raise what is known about it."""
        response = await self._send(request)
        if is_committed(response, after):
            return
        if not is_leader(response, self.leadership.term):
            raise self._deposed()
        raise CommitUnknown("the state in etcd was changed by another program; it has to be loaded again")

    def _deposed(self) -> NotLeader:
        self.leadership.end("another server has become the leader")
        return NotLeader("cannot write to etcd: another server has become the leader")

    async def _send(self, request: TxnRequest) -> TxnResponse:
        """Repeat the request until etcd responds, while this server leads."""
        now = asyncio.get_running_loop().time
        deadline, may_be_done, problem = now() + WRITE_LIMIT, False, "no member was contacted"
        while (left := min(deadline - now(), self.leadership.seconds_left)) > 0:
            try:
                response = await self._client.txn(request, left)
                self.revision = response.header.revision
                return response
            except EtcdUnavailable as failure:
                may_be_done, problem = may_be_done or failure.may_be_done, str(failure)
                await asyncio.sleep(_PAUSE_SECONDS)
            except EtcdRejected as failure:
                return await self._after_rejection(request, failure, may_be_done or failure.may_be_done)
        raise self._gave_up(problem, may_be_done)

    async def _after_rejection(self, request: TxnRequest, failure: EtcdRejected, may_be_done: bool) -> TxnResponse:
        """Send the guard alone: an etcd without space may have executed the transaction before it rejected it."""
        text = _with_advice(str(failure))
        try:
            guard = TxnRequest(compare=request.compare, failure=request.failure)
            response = await self._client.txn(guard, self.leadership.seconds_left)
        except StorageFailed as second:
            raise CommitUnknown(f"{text}; then: {second}") from failure
        if not response.succeeded:
            return response
        if may_be_done:
            raise CommitUnknown(f"{text}; an earlier attempt may still be successful") from failure
        raise StorageFailed(text) from failure

    def _gave_up(self, problem: str, may_be_done: bool) -> StorageFailed:
        if not self.leadership.is_valid:
            self.leadership.end(f"the lease could not be renewed in time: {problem}")
            text = f"cannot write to etcd: this server does not lead any more: {self.leadership.reason}"
            return NotLeader(text, None if may_be_done else False)
        if may_be_done:
            return CommitUnknown(f"{problem}; {UNKNOWN_TEXT}")
        return StorageFailed(f"cannot write to etcd: {problem}")


def _with_advice(text: str) -> str:
    return f"{text}; compact and defragment etcd, then disarm its alarm" if _NO_SPACE in text else text
