"""Calls of podman, with and without failures, with a scripted replacement."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.podman.listing import decode_unpadded, parse_pods, parse_volumes
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.stand_in import StandIn
from tests.unit.runtimes.recording_cli import PS, RecordingCli, a_container, failed


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    made.close()


def cli_of(stand_in: StandIn, limit: float = 20.0) -> PodmanCli:
    settings = PodmanSettings(program=stand_in.program, query_limit=limit, run_limit=limit, stop_limit=limit)
    return PodmanCli(settings)


async def test_the_configured_program_podman_runs_containers(stand_in: StandIn) -> None:
    """[utest->swdd~podman-uses-podman-cli~1]
    [utest->swdd~podman-kube-uses-podman-cli~1]
    """
    cli = cli_of(stand_in)
    container = await cli.start(["run", "--detach", "--name", "web", "image", "true"])
    pods = await cli.kube_play(["--a"], ["--b"], "manifest")
    assert stand_in.containers() == [container]
    assert len(pods) == 1
    assert stand_in.calls("kube play") == [["--a", "kube", "play", "--quiet", "--b", "-"]]
    assert stand_in.records("kube play")[0]["stdin"] == "manifest"


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"do": "fail", "stderr": "Error: no space left on device"}, "no space left on device"),
        ({"do": "die"}, "Ended by signal 9"),
        ({"do": "hang"}, "No response within 0.5 s"),
        ({"do": "print", "stdout": ""}, 'podman printed no container id. Execution of \'.*"run" "image"\''),
    ],
)
async def test_invalid_behaviour_of_podman_is_reported_as_a_failure(
    stand_in: StandIn, action: dict[str, str], why: str
) -> None:
    stand_in.script("run", **action)
    with pytest.raises(RuntimeFailed, match=why):
        await cli_of(stand_in, limit=0.5 if action["do"] == "hang" else 60.0).start(["run", "image"])


async def test_a_missing_podman_is_reported_as_a_failure() -> None:
    cli = PodmanCli(PodmanSettings(program="/no/such/podman"))
    with pytest.raises(CommandFailed, match="Could not spawn command"):
        await cli.start(["run", "image"])
    with pytest.raises(CommandFailed, match="Could not spawn command"):
        (await cli.listings.get()).get()


@pytest.mark.parametrize("garbage", ["not json", "{}", "\u0000"])
async def test_an_invalid_listing_is_retried_once_and_then_an_error(stand_in: StandIn, garbage: str) -> None:
    stand_in.script("ps", do="print", stdout=garbage)
    cli = cli_of(stand_in)
    with pytest.raises(RuntimeFailed, match="cannot read the list of containers"):
        (await cli.listings.get()).get()
    assert len(stand_in.calls("ps")) == 2


async def test_a_single_invalid_answer_is_retried(stand_in: StandIn) -> None:
    stand_in.script("ps", do="fail", stderr="Error: locked", times=1)
    assert (await cli_of(stand_in).listings.get()).get().by_id == {}


class HangingCli(RecordingCli):
    """Hangs until the time limit a few times, then answers slowly."""

    def __init__(self, hang: int, takes: float = 0.0) -> None:
        super().__init__()
        self.limits: list[float] = []
        self.now = 0.0
        self._hang, self._takes = hang, takes

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        self.limits.append(limit)
        self.now += self._takes
        if len(self.limits) <= self._hang:
            raise CommandFailed("podman", f"No response within {limit:g} s")
        return await super()._call_now(arguments, limit, stdin, environment)


async def test_a_hanging_listing_is_ended_soon_and_a_slow_podman_gets_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli = HangingCli(hang=3)
    for _ in range(3):
        await cli.listings.get()
        cli.listings.reset()
    assert cli.limits == [10, 20, 30, 30, 10]
    slow = HangingCli(hang=0, takes=6.0)
    monkeypatch.setattr("ankaios.runtimes.podman.podman_cli.time.monotonic", lambda: slow.now)
    for _ in range(2):
        await slow.listings.get()
        slow.listings.reset()
    assert slow.limits == [10, 18]


class CountingCli(PodmanCli):
    """Calls whose duration the test controls, counted by their first word."""

    def __init__(self) -> None:
        super().__init__(PodmanSettings())
        self.under_way: list[str] = []
        self.go_on = asyncio.Event()

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        self.under_way.append(arguments[0])
        await self.go_on.wait()
        return "c1"


async def test_the_number_of_calls_is_limited_and_stops_do_not_block_starts() -> None:
    cli = CountingCli()
    stops = [asyncio.create_task(cli.remove(f"c{number}")) for number in range(20)]
    starts = [asyncio.create_task(cli.start(["run", "image"])) for _ in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert Counter(cli.under_way) == {"rm": 8, "run": 4}
    cli.go_on.set()
    await asyncio.gather(*stops, *starts)


async def test_a_listing_does_not_wait_for_slow_starts(stand_in: StandIn) -> None:
    cli = cli_of(stand_in)
    stand_in.script("run", do="hang")
    starts = [asyncio.create_task(cli.start(["run", "image"])) for _ in range(4)]
    async with asyncio.timeout(60):
        assert (await cli.listings.get()).get().by_id == {}
    for start in starts:
        start.cancel()
    await asyncio.wait(starts)


async def test_a_new_container_is_never_searched_in_an_old_listing(stand_in: StandIn) -> None:
    """[utest->swdd~podman-state-getter-reset-cache~1]"""
    cli = cli_of(stand_in)
    assert (await cli.listings.get()).get().by_id == {}
    container = await cli.start(["run", "--name", "web", "image", "true"])
    assert list((await cli.listings.get()).get().by_id) == [container]


async def test_the_pods_of_a_new_workload_are_never_searched_in_an_old_listing() -> None:
    """[utest->swdd~podman-kube-state-getter-reset-cache~1]"""
    cli = RecordingCli()
    await cli.listings.get()
    await cli.kube_play([], [], "manifest")
    assert cli.listings.newest() is None


async def test_stopping_and_removing_is_one_call() -> None:
    """[utest->swdd~podman-delete-workload-stops-and-removes-workload~1]
    [utest->swdd~podman-workload-stops-container~1]
    [utest->swdd~podman-workload-deletes-container~1]
    """
    cli = RecordingCli()
    await cli.remove("c1")
    assert cli.lines() == ["rm --force --ignore c1"]


async def test_a_container_that_cannot_be_removed_at_all_is_a_failure() -> None:
    cli = RecordingCli()
    cli.answers["rm"] = failed("device busy")
    with pytest.raises(CommandFailed, match="device busy"):
        await cli.remove("c1")


async def test_data_is_kept_in_the_label_of_a_volume_without_padding() -> None:
    cli = RecordingCli()
    cli.answers["volume rm"] = failed("no such volume")
    await cli.store("v", '["7cc9"]')
    assert cli.lines() == ["volume rm v", "volume create --label=data=WyI3Y2M5Il0 v"]


async def test_stored_data_is_read_from_one_listing() -> None:
    cli = RecordingCli()
    volumes = [{"Name": "a", "Labels": {"data": "WyI3Y2M5Il0"}}, {"Name": "b", "Labels": None}]
    cli.answers["volume ls"] = json.dumps(volumes)
    assert await cli.stored("x$") == {"a": '["7cc9"]', "b": None}
    assert cli.lines() == ["volume ls --filter name=x$ --format=json"]


async def test_listings_share_one_call_and_their_number_is_recorded() -> None:
    cli = RecordingCli([a_container("c1")])
    await asyncio.gather(*(cli.listings.get() for _ in range(50)))
    assert cli.lines() == [PS]


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        ("Pod:\nabc\nContainer:\ndef\n\n", ["abc"]),
        ("Pod:\nabc\nContainers:\nd\ne\n\nPod:\n  fgh \nContainer:\ni\n", ["abc", "fgh"]),
        ("Pod:\na\nb\nVolumes:\nv\n", ["a", "b"]),
        ("Volumes:\nv\n", []),
        ("", []),
    ],
)
def test_pods_are_the_lines_below_their_heading(text: str, pods: list[str]) -> None:
    assert parse_pods(text) == pods


async def test_pods_are_listed_with_their_names() -> None:
    cli = RecordingCli()
    cli.answers["pod ps"] = '[{"Id": "p1", "Name": "shop"}, 3, {"Id": "p2"}]'
    assert await cli.pods() == {"p1": "shop"}
    assert cli.lines() == ["pod ps --format=json"]


@pytest.mark.parametrize("text", ["no json", "{}", "3"])
def test_an_invalid_list_of_volumes_is_an_error(text: str) -> None:
    with pytest.raises(RuntimeFailed, match="cannot read the list of volumes"):
        parse_volumes(text)


def test_invalid_volumes_are_ignored_or_unreadable() -> None:
    found = parse_volumes('[3, {}, {"Name": 4}, {"Name": "a", "Labels": {"data": "a"}}, {"Name": "b"}]')
    assert found == {"a": None, "b": None}
    assert parse_volumes("null") == {}


@pytest.mark.parametrize(("data", "text"), [("aGk", "hi"), ("", ""), ("aGk=", None), ("a", None), ("!!!!", None)])
def test_base64_is_stored_without_padding(data: str, text: str | None) -> None:
    assert decode_unpadded(data) == text
    assert decode_unpadded("/w") is None


def test_a_socket_selects_the_podman_service_without_changing_any_argument() -> None:
    assert PodmanSettings().plain_environment() == os.environ
    given = PodmanSettings(socket="/run/podman.sock", environment={"A": "b"}).plain_environment()
    assert given == {"A": "b", "CONTAINER_HOST": "unix:///run/podman.sock"}
    inherited = PodmanSettings(socket="/run/podman.sock").plain_environment()
    assert inherited["PATH"] == os.environ["PATH"]


async def test_podman_is_called_with_a_late_collector_unless_a_container_may_inherit_it(
    stand_in: StandIn, tmp_path: Path
) -> None:
    conf = tmp_path / "containers.conf"
    environ = {"PATH": os.environ["PATH"], "CONTAINERS_CONF": str(conf), "HOME": str(tmp_path)}
    cli = PodmanCli(PodmanSettings(program=stand_in.program, environment=environ))
    await cli.start(["run", "--name", "w1", "image", "true"], ["-e", "A=b"])
    await cli.start(["run", "--name", "w2", "image", "true"], ["--env-host"])
    conf.write_text('env = ["GOGC"]\n')
    await cli.start(["run", "--name", "w3", "image", "true"])
    await cli.listings.get()
    found = [record["environ"].get("GOGC") for record in stand_in.records()]
    assert found == ["400", None, None, "400"]


async def test_a_collector_that_the_user_has_set_is_kept(stand_in: StandIn) -> None:
    environ = {"PATH": os.environ["PATH"], "GOGC": "50"}
    cli = PodmanCli(PodmanSettings(program=stand_in.program, environment=environ))
    await cli.start(["run", "--name", "w4", "image", "true"])
    await cli.start(["run", "--name", "w5", "image", "true"], ["--env-host"])
    assert [record["environ"]["GOGC"] for record in stand_in.records()] == ["50", "50"]
