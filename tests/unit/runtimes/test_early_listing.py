"""A listing that started before the agent was loaded is used if possible, and repeated otherwise."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.podman.early_listing import PIPE_SIZE, EarlyListing
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_settings import LIST_CONTAINERS, PodmanSettings
from tests.support.stand_in import StandIn
from tests.unit.runtimes.recording_cli import a_container


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    made.close()


def settings_of(stand_in: StandIn, limit: float = 60.0) -> PodmanSettings:
    return PodmanSettings(program=stand_in.program, query_limit=limit)


async def ids(cli: PodmanCli, **more: float) -> list[str]:
    try:
        return list((await cli.listings.get(**more)).get().by_id)
    finally:
        await cli.close()


async def test_the_connector_uses_the_running_listing(stand_in: StandIn) -> None:
    stand_in.script("ps", do="print", stdout=json.dumps([a_container("c1")]))
    settings = settings_of(stand_in)
    early = EarlyListing(settings)
    cli = PodmanCli(settings, early)
    assert await ids(cli, max_age=60.0) == ["c1"]
    (record,) = stand_in.records()
    assert record["arguments"] == list(LIST_CONTAINERS)
    assert record["environ"]["GOGC"] == "400"


async def test_the_age_of_a_listing_counts_from_its_request(stand_in: StandIn) -> None:
    settings = settings_of(stand_in)
    early = EarlyListing(settings)
    cli = PodmanCli(settings, early)
    loaded = await cli.listings.get(max_age=60.0)
    assert loaded.asked == early.asked
    await cli.close()


async def test_a_listing_from_before_a_start_is_repeated(stand_in: StandIn) -> None:
    settings = settings_of(stand_in)
    cli = PodmanCli(settings, EarlyListing(settings))
    container = await cli.start(["run", "--detach", "--name", "web", "image", "true"])
    assert await ids(cli, max_age=60.0) == [container]
    assert len(stand_in.calls("ps")) == 2


async def test_a_listing_that_is_too_old_is_repeated(stand_in: StandIn) -> None:
    settings = settings_of(stand_in)
    early = EarlyListing(settings)
    early.asked -= 60.0
    await ids(PodmanCli(settings, early), max_age=5.0)
    assert len(stand_in.calls("ps")) == 2


@pytest.mark.parametrize(
    "action",
    [{"do": "fail", "stderr": "boom"}, {"do": "die"}, {"do": "print", "stdout": "garbage"}, {"do": "hang"}],
)
async def test_an_early_listing_that_fails_is_no_failure(stand_in: StandIn, action: dict[str, str]) -> None:
    stand_in.script("ps", times=1, **action)
    settings = settings_of(stand_in, limit=1.0 if action["do"] == "hang" else 60.0)
    early = EarlyListing(settings)
    cli = PodmanCli(settings, early)
    if action["do"] == "hang":
        cli.settings = settings_of(stand_in)  # the duration of the second call does not matter
    assert await ids(cli, max_age=60.0) == []
    assert len(stand_in.calls("ps")) == 2


async def test_a_failure_of_podman_is_reported_by_the_repeated_call() -> None:
    settings = PodmanSettings(program="/no/such/podman")
    with pytest.raises(CommandFailed, match=r"Could not spawn command.*'/no/such/podman \"ps\""):
        await ids(PodmanCli(settings, EarlyListing(settings)))


async def test_a_failure_is_not_kept_as_long_as_a_listing(stand_in: StandIn) -> None:
    stand_in.script("ps", do="fail", stderr="boom", times=2)
    settings = settings_of(stand_in)
    early = EarlyListing(settings)
    early.asked -= 2.0
    assert await ids(PodmanCli(settings, early), max_age=60.0) == []


def test_the_output_need_not_be_read_while_the_agent_is_loaded(stand_in: StandIn) -> None:
    text = json.dumps([a_container(f"c{number}", Names=["x" * 1000]) for number in range(500)])
    assert 256 * 1024 < len(text) < PIPE_SIZE
    stand_in.script("ps", do="print", stdout=text)
    process = EarlyListing(settings_of(stand_in)).take()
    assert process is not None
    assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    process.close()
    assert process.has_ended()


def test_an_unused_listing_ends_with_the_agent(stand_in: StandIn) -> None:
    stand_in.script("ps", do="hang")
    early = EarlyListing(settings_of(stand_in))
    process = early._process
    assert process is not None
    early.drop()
    early.drop()
    assert process.exit_code == -signal.SIGKILL
    assert early.take() is None


async def test_a_connector_that_is_closed_ends_the_listing(stand_in: StandIn) -> None:
    stand_in.script("ps", do="hang")
    settings = settings_of(stand_in)
    early = EarlyListing(settings)
    process = early._process
    cli = PodmanCli(settings, early)
    await asyncio.sleep(0)
    await cli.close()
    assert process is not None
    assert process.exit_code is not None
