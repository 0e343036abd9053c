"""`why`, `rollout status`, `history`, `--atomic` and other additions against servers that do not have them."""

from pathlib import Path

import pytest

from tests.integration.cli.ank import ERROR, ank, example_state
from tests.integration.cli.scripted_server import ScriptedServer
from tests.integration.cli.test_plan import MANIFEST

LIMIT = ("--response-timeout", "300")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("why", "web"), "explanations of workloads"),
        (("rollout", "status"), "rollouts"),
        (("get", "events", "--since", "10m"), "records of workloads"),
        (("history",), "revisions"),
        (("get", "servers"), "states of servers"),
    ],
)
def test_a_server_of_eclipse_ankaios_is_reported_within_the_time_limit(words: tuple[str, ...], what: str) -> None:
    with ScriptedServer(example_state()) as server:
        done = ank(*LIMIT, *words, url=server.url)
    assert done.returncode == 1
    text = f"the server supports no {what}; servers of Eclipse Ankaios do not have them (no response within 300ms)"
    assert text in done.stderr


@pytest.mark.parametrize("words", [("apply", "--atomic", "web.yaml"), ("rollback", "--atomic", "1")])
def test_an_atomic_change_is_not_sent_to_a_server_that_would_ignore_the_option(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "web.yaml").write_text(MANIFEST)
    with ScriptedServer(example_state()) as server:
        done = ank(*(word.replace("web.yaml", str(tmp_path / "web.yaml")) for word in words), url=server.url)
        assert [request.WhichOneof("RequestContent") for request in server.requests] == ["completeStateRequest"]
    assert done.stderr.startswith(f"{ERROR}the server does not support atomic changes, so nothing was changed\n")
    assert done.returncode == 1


def test_describe_omits_the_timeline() -> None:
    with ScriptedServer(example_state()) as server:
        done = ank("describe", "workload", "web", url=server.url)
    assert done.returncode == 0
    assert "Timeline" not in done.stdout


@pytest.mark.parametrize("duration", ["", "5", "s", "1d", "-1s"])
def test_a_wrong_duration_is_a_usage_error(duration: str) -> None:
    done = ank("apply", "--atomic", f"--settle={duration}", "x.yaml")
    assert done.returncode == 2
