"""Times, sizes and texts that workloads, servers and users rely on."""

import pytest

from ankaios.agent import control_interface, fifo, load_reporter, server_link
from ankaios.agent.core import control_session, log_splitting, workload_lifecycle
from ankaios.common import execution_state, names
from ankaios.common.execution_state import FAILED_UNKNOWN, PENDING_STARTING, STOPPING, ExecutionState
from ankaios.runtimes import generic_polling_state_checker, state_cache
from ankaios.runtimes.containerd import nerdctl_cli
from ankaios.runtimes.podman import states

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


@pytest.mark.parametrize(
    ("found", "documented"),
    [
        (execution_state.TRIGGERED_AT_RUNTIME, "Triggered at runtime."),
        (control_session.ACCESS_DENIED, "Access denied"),
        (control_session.HELLO_MISSING, "Initial Hello missing!"),
        (control_session.UNDECODABLE, "Could not decode protobuf data"),
        (
            log_splitting.LINE_TOO_LONG,
            "The previous log message exceeded the maximum 50 MB size. Closing the log campaign.",
        ),
        (
            log_splitting.ENTRY_TRUNCATED,
            "The previous message was truncated due to exceeding the maximum 2 MB size.",
        ),
        (log_splitting.TRUNCATED_SUFFIX, " [truncated]"),
    ],
)
def test_a_documented_text_is_the_one_in_use(found: str, documented: str) -> None:
    assert found == documented


@pytest.mark.parametrize(
    ("found", "documented", "text"),
    [
        (generic_polling_state_checker.NEVER_RECEIVED, FAILED_UNKNOWN, "Never received an execution state."),
        (states.PODMAN_UNREADABLE, FAILED_UNKNOWN, "Error getting state from Podman."),
        (states.PODS_UNREADABLE, FAILED_UNKNOWN, "Error getting state from pods."),
        (states.METADATA_UNREADABLE, FAILED_UNKNOWN, "Could not load workload metadata"),
        (nerdctl_cli.NERDCTL_UNREADABLE, FAILED_UNKNOWN, "Error getting state from Nerdctl."),
        (states.KUBE_STARTING, PENDING_STARTING, "starting container"),
        (states.KUBE_UNKNOWN, FAILED_UNKNOWN, "unknown container state"),
        (states.KUBE_STOPPING, STOPPING, "stopping container"),
    ],
)
def test_a_documented_state_has_its_documented_text(
    found: ExecutionState, documented: ExecutionState, text: str
) -> None:
    assert found == documented.because(text)
