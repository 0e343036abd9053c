"""Times and sizes that workloads, servers and people rely on."""

import pytest

from ankaios.agent import control_interface, fifo, load_reporter, server_link
from ankaios.agent.core import log_splitting, workload_lifecycle
from ankaios.common import names
from ankaios.runtimes import generic_polling_state_checker, state_cache

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("found", "documented"),
    [
        (server_link.RECONNECT_PAUSE, 1.0),
        (load_reporter.REPORT_INTERVAL, 2.0),
        (generic_polling_state_checker.POLL_INTERVAL, 0.5),
        (state_cache.MAX_AGE, 1.0),
        (workload_lifecycle.FIRST_PAUSE, 0.5),
        (workload_lifecycle.LONGEST_PAUSE, 300.0),
        (fifo.WRITE_LIMIT, 0.5),
        (fifo.REOPEN_PAUSE, 0.1),
        (fifo.REOPEN_ATTEMPTS, 5),
        (control_interface.MAX_WAITING, 1024),
        (log_splitting.MAX_LINE, 50 * MIB),
        (log_splitting.MAX_RESPONSE, 2 * MIB),
        (names.MAX_NAME_LENGTH, 63),
    ],
)
def test_a_documented_value_is_the_one_in_use(found: float, documented: float) -> None:
    assert found == documented
