"""What a control interface knows of the world outside of its workload."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from ankaios.agent.core.health import HealthResult
from ankaios.common.pb.ank_base_pb2 import Request


def _ignore(result: HealthResult) -> None:
    del result


class ControlCallbacks(Struct, frozen=True):
    """Where requests go, waiting while too many of this workload are under way, and who learns of unread logs.

    `denied` is called for each request that the rights of the workload do not allow, `notified` with what the workload
    reports about its health. Logs are named as the server names them: with the workload in front.
    """

    forward: Callable[[Request], Awaitable[None]]
    log_unread: Callable[[str], None]
    denied: Callable[[], None] = lambda: None
    notified: Callable[[HealthResult], None] = _ignore
