"""The health checks of a workload: the word `image`, durations, and what the server rejects."""

from typing import Any

import pytest

from ankaios.common.health import Health, HttpCheck, OnUnhealthy
from ankaios.common.model.state import EXECUTION_STATE, HEALTH, WORKLOAD
from ankaios.common.model.values import Malformed
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.proto_conversion import workload_from_pb
from ankaios.common.workload import InstanceName

SMALL = {"agent": "n1", "runtime": "podman", "runtimeConfig": "image: a"}


def test_the_word_image_selects_the_check_of_the_image() -> None:
    assert HEALTH.read("image") == {"image": True}
    assert HEALTH.from_form("image") == base.Health(image=True)
    assert list(HEALTH.violations("image", "")) == []


def test_durations_are_stored_as_text_and_sent_in_milliseconds() -> None:
    form = HEALTH.read({"http": {"port": 80, "interval": 5, "timeout": "1500ms"}})
    assert form == {"http": {"interval": "5s", "timeout": "1500ms", "port": 80}}
    message = HEALTH.from_form(form)
    assert (message.http.interval, message.http.timeout) == (5000, 1500)
    assert HEALTH.to_form(message) == form


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "expected at least one of `image`, `exec`, `http`, `tcp`, `file`, `notify`"),
        ({"onUnhealthy": "stop"}, "expected at least one of `image`, `exec`, `http`, `tcp`, `file`, `notify`"),
        ("docker", 'invalid type: string "docker", expected a map'),
        ({"tcp": {}}, "tcp: missing field `port`"),
        ({"tcp": {"port": 70000}}, "tcp.port: invalid value: integer `70000`, expected a number from 0 to 65535"),
        ({"notify": {"interval": "soon"}},
         'notify.interval: invalid type: string "soon", expected a duration such as 5s or 500ms'),
        ({"notify": {}, "onUnhealthy": "panic"},
         "onUnhealthy: unknown variant `panic`, expected one of `restart`, `stop`, `none`"),
    ],
)  # fmt: skip
def test_invalid_checks_are_rejected_with_position_and_reason(value: Any, text: str) -> None:
    with pytest.raises(Malformed) as fault:
        HEALTH.read(value)
    assert str(fault.value) == text
    assert list(HEALTH.violations(value, ""))


def test_agents_get_typed_checks_with_defaults() -> None:
    form = WORKLOAD.read({**SMALL, "health": {"http": {"port": 80}, "onUnhealthy": "none"}})
    spec = workload_from_pb(InstanceName("w", "i", "n1"), WORKLOAD.from_form(form))
    assert spec.health == Health(http=HttpCheck(port=80), on_unhealthy=OnUnhealthy.NONE)
    assert (spec.health.http.interval, spec.health.http.path) == ("10s", "/")  # type: ignore[union-attr]


def test_the_health_of_an_execution_state_can_be_selected_alone() -> None:
    """Field masks select parts of a state, and clients show the parts that they receive."""
    message = base.ExecutionState()
    EXECUTION_STATE.fill(message, {"health": {"text": "x"}})
    assert EXECUTION_STATE.to_form(message) == {"health": {"status": "Starting", "text": "x"}}
