"""Hints about masks that select nothing."""

import io
from typing import Any, cast

import pytest

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.hints import hint_unmatched_masks
from ankaios.cli.session import RequestFailed, Session
from ankaios.cli.settings import CliSettings
from ankaios.cli.terminal.output import CliOutput
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base

FORM: dict[str, Any] = {
    "desiredState": {"apiVersion": "v1", "workloads": {"web": {"agent": "n1", "tags": {"k": "v"}}}},
    "agents": {"n1": {}},
}


class FakeSession:
    """Returns the whole state, or fails."""

    def __init__(self, *, answers: bool = True) -> None:
        self.requested: list[str] = []
        self._answers = answers

    def complete_state(self, *masks: str, limit_ms: int) -> base.CompleteState:
        assert limit_ms <= 500
        self.requested += masks
        if not self._answers:
            raise RequestFailed("no")
        return COMPLETE_STATE.from_form(FORM)


def hinted(mask: str, session: FakeSession | None = None) -> str:
    stderr = io.StringIO()
    call = CommandCall((), {}, CliSettings(), CliOutput(io.StringIO(), stderr, {}))
    hint_unmatched_masks(call, cast(Session, session or FakeSession()), [mask], FORM)
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
def test_a_mask_that_selects_anything_gets_no_hint(mask: str, does: bool) -> None:
    assert (hinted(mask) == "") is does


@pytest.mark.parametrize(
    ("mask", "corrected"),
    [
        ("desiredstate.workloads", "desiredState.workloads"),
        ("desiredState.workload.web", "desiredState.workloads.web"),
        ("desiredState.workloads.wbe.agent", "desiredState.workloads.web.agent"),
        ("desiredState.workloads.web.tag", "desiredState.workloads.web.tags"),
    ],
)
def test_the_hint_corrects_the_first_wrong_part(mask: str, corrected: str) -> None:
    assert hinted(mask) == f"nothing matches '{mask}'; did you mean '{corrected}'?"


@pytest.mark.parametrize(
    ("mask", "hint"),
    [
        ("agents.x9", "nothing matches 'agents.x9': in 'agents' there are n1"),
        ("agents.n1.status", "nothing matches 'agents.n1.status' at the moment"),
        ("desiredState.workloads", ""),
    ],
)
def test_the_hint_lists_the_existing_keys_if_none_is_similar(mask: str, hint: str) -> None:
    assert hinted(mask) == hint


def test_without_a_response_the_hint_is_shorter() -> None:
    session = FakeSession(answers=False)
    assert hinted("agents.x9", session) == "nothing matches 'agents.x9' at the moment"
    assert session.requested == ["agents"]
