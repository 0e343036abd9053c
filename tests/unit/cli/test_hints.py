"""Hints about masks that select nothing."""

import io
from typing import Any, cast

import pytest

from ankaios.cli.arguments import Call
from ankaios.cli.connection import CommandFailed, Session
from ankaios.cli.hints import hint_at_unmatched_masks, matches
from ankaios.cli.output import Output
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base

FORM: dict[str, Any] = {
    "desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": "n1", "tags": {"k": "v"}}}},
    "agents": {"n1": {}},
}


class FakeSession:
    """Knows the whole state, or nothing at all."""

    def __init__(self, *, answers: bool = True) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def complete_state(self, *masks: str, patience_ms: int) -> base.CompleteState:
        assert patience_ms <= 500
        self.asked += masks
        if not self._answers:
            raise CommandFailed("no")
        return COMPLETE_STATE.from_form(FORM)


def hinted(mask: str, session: FakeSession | None = None) -> str:
    stderr = io.StringIO()
    call = Call((), {}, {})
    call.output = Output(io.StringIO(), stderr, {})
    hint_at_unmatched_masks(call, cast(Session, session or FakeSession()), [mask], FORM)
    return stderr.getvalue().removeprefix("hint: ").strip()


@pytest.mark.parametrize(
    ("mask", "does"),
    [
        ("desiredState", True),
        ("desiredState.workloads.*.agent", True),
        ("*.*.web", True),
        ("desiredState.workloads.*.runtime", False),
        ("agents.n1", True),
        ("agents.n1.status", False),
        ("desiredState.apiVersion.x", False),
        ("", False),
    ],
)
def test_a_mask_matches_if_it_selects_anything(mask: str, does: bool) -> None:
    assert matches(FORM, mask.split(".")) is does


@pytest.mark.parametrize(
    ("mask", "meant"),
    [
        ("desiredstate.workloads", "desiredState.workloads"),
        ("desiredState.workload.web", "desiredState.workloads.web"),
        ("desiredState.workloads.wbe.agent", "desiredState.workloads.web.agent"),
        ("desiredState.workloads.web.tag", "desiredState.workloads.web.tags"),
    ],
)
def test_the_hint_corrects_the_first_part_that_is_wrong(mask: str, meant: str) -> None:
    assert hinted(mask) == f"nothing matches '{mask}', did you mean '{meant}'?"


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        ("agents.x9", "nothing matches 'agents.x9': in 'agents' there are n1"),
        ("agents.n1.status", "nothing matches 'agents.n1.status' at the moment"),
        ("desiredState.workloads", ""),
    ],
)
def test_the_hint_tells_what_there_is_if_nothing_is_near(mask: str, told: str) -> None:
    assert hinted(mask) == told


def test_a_server_that_does_not_answer_costs_only_the_hint() -> None:
    session = FakeSession(answers=False)
    assert hinted("agents.x9", session) == "nothing matches 'agents.x9' at the moment"
    assert session.asked == ["agents"]
