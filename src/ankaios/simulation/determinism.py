"""Makes everything that differs between two runs depend on the seed: clocks, random bytes, the garbage collector.

Input: a loop on virtual time and a source of random numbers with a seed. Output: a context in which the standard
library uses them. Owns the list of what is replaced in the standard library.
"""

import fcntl
import gc
import os
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ankaios.agent import load_reporter
from ankaios.agent.resource_monitor import Load, ResourceMonitor
from ankaios.grpc import served_connection
from ankaios.grpc.async_connection import AsyncConnection
from ankaios.server import state_leader
from ankaios.simulation.transport import ping_only_if_needed
from ankaios.simulation.virtual_time import VirtualTimeLoop

# Virtual time zero. Its only meaning is that times in output look like times.
EPOCH = 1_700_000_000.0
# Background traffic is rarer than in production, so that idle hours take little time.
LOAD_INTERVAL, PUBLISH_INTERVAL = 60.0, 30.0


@contextmanager
def seeded(
    loop: VirtualTimeLoop,
    source: random.Random,
    jump: Callable[[], float] = lambda: 0.0,
    others: Iterable[tuple[Any, str, Any]] = (),
) -> Iterator[None]:
    """`jump` is the difference between the wall clock and virtual time, for clocks that are set.

    `others` are further replacements of a simulation: an owner, an attribute, and its value.
    """
    replaced: list[tuple[Any, str, Any]] = [
        *others,
        (time, "time", lambda: EPOCH + loop.now + jump()),
        (time, "time_ns", lambda: int((EPOCH + loop.now + jump()) * 1e9)),
        (time, "monotonic", lambda: loop.now),
        (time, "clock_gettime", lambda _: loop.now),
        (time, "perf_counter", lambda: loop.now),
        (os, "urandom", source.randbytes),
        (random, "_urandom", source.randbytes),
        (uuid, "uuid4", lambda: uuid.UUID(bytes=source.randbytes(16), version=4)),
        # The time that this machine needs for a frame.
        (served_connection, "thread_time", lambda: 0.0),
        # The kernel would release the locks of a killed process.
        (fcntl, "flock", lambda *_: None),
        # A server collects and freezes its objects after the start; here many servers start in one process.
        (gc, "freeze", lambda: None),
        (gc, "collect", lambda *_: 0),
        (gc, "enable", lambda: None),
        # The load of this machine; nothing is decided by it, so it is reported rarely.
        (ResourceMonitor, "sample", lambda _: Load(cpu_percent=10, free_bytes=1 << 30)),
        (load_reporter, "REPORT_INTERVAL", LOAD_INTERVAL),
        (state_leader, "PUBLISH_SECONDS", PUBLISH_INTERVAL),
        (AsyncConnection, "_check_keepalive", ping_only_if_needed(AsyncConnection._check_keepalive)),
    ]
    patches = [patch.object(owner, name, value) for owner, name, value in replaced]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
