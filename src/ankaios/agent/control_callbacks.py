"""The functions that a control interface calls."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ankaios.agent.core.health import HealthResult
from ankaios.common.pb.ank_base_pb2 import Request


def _ignore(result: HealthResult) -> None:
    del result


class ControlCallbacks(Struct, frozen=True):
    """`forward` sends a request; it waits while too many requests of this workload are in progress.

    `log_unread` is called with the request id of unread logs, as the server uses it: with the workload as prefix.
    `denied` is called for each request that the access rules reject, `notified` with each health notification.
    """

    forward: Callable[[Request], Awaitable[None]]
    log_unread: Callable[[str], None]
    denied: Callable[[], None] = lambda: None
    notified: Callable[[HealthResult], None] = _ignore
