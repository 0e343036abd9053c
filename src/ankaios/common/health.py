"""Typed health checks of a workload, as agents perform them, and the defaults of their fields.

Field names are those of the plain form (`model.state`), in snake case. Durations are text such as `5s`.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

CHECK_INTERVAL: Final = "10s"
CHECK_TIMEOUT: Final = "3s"
CHECK_START_PERIOD: Final = "0s"
CHECK_FAILURES: Final = 3
CHECK_SUCCESSES: Final = 1
CHECKED_HOST: Final = "127.0.0.1"
CHECKED_PATH: Final = "/"
IMAGE_WORD: Final = "image"


class OnUnhealthy(Enum):
    RESTART = "restart"
    STOP = "stop"
    NONE = "none"


class HealthCheck(Struct, frozen=True, rename="camel"):
    """The common fields of all kinds of checks."""

    interval: str = CHECK_INTERVAL
    timeout: str = CHECK_TIMEOUT
    start_period: str = CHECK_START_PERIOD
    failures: int = CHECK_FAILURES
    successes: int = CHECK_SUCCESSES


class ExecCheck(HealthCheck, frozen=True, rename="camel"):
    command: tuple[str, ...] = ()
    container: str | None = None


class HttpCheck(HealthCheck, frozen=True, rename="camel"):
    port: int = 0
    path: str = CHECKED_PATH
    host: str = CHECKED_HOST


class TcpCheck(HealthCheck, frozen=True, rename="camel"):
    port: int = 0
    host: str = CHECKED_HOST


class FileCheck(HealthCheck, frozen=True, rename="camel"):
    path: str = ""
    max_age: str | None = None
    container: str | None = None


class NotifyCheck(HealthCheck, frozen=True, rename="camel"):
    pass


class Health(Struct, frozen=True, rename="camel"):
    """`image`: the HEALTHCHECK of the container image is a check."""

    image: bool = False
    exec: ExecCheck | None = None
    http: HttpCheck | None = None
    tcp: TcpCheck | None = None
    file: FileCheck | None = None
    notify: NotifyCheck | None = None
    on_unhealthy: OnUnhealthy = OnUnhealthy.RESTART
