"""`ank` does not import the slow libraries that a short command does not need."""

import subprocess
import sys

import pytest

from tests.integration.cli.ank import LIMIT, environment, example_state
from tests.integration.cli.scripted_server import ScriptedServer
from tests.integration.cli.test_updates import DB_ID, MANIFEST, Cluster, served

SLOW = {"asyncio", "json", "rich", "ssl", "tomllib", "yaml"}
"""Each takes between five and sixty milliseconds. `ank` needs TLS only with certificates, and TOML only with a file."""
NOT_FOR_TABLES = {
    "argparse",
    "ipaddress",
    "msgspec",
    "pathlib",
    "shutil",
    "subprocess",
    "urllib.parse",
    "ankaios.cli.input_file",
    "ankaios.cli.interruptible",
    "ankaios.cli.terminal.live_display",
    "ankaios.common.model",
    "ankaios.common.workload",
}
"""Each takes between 0.2 and 10 ms; `ank get workloads` has a budget of 70 ms, of which h2 and protobuf take 50."""


def loaded(*words: str, stdin: str = "") -> set[str]:
    """The modules that are imported between the start of Python and the end of the command."""
    # The launcher of an installed `ank` is no more than this; `-m` would load `runpy` with half of the list.
    launcher = "from ankaios.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", launcher, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
        check=True,
    )
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return set(names[names.index("ankaios") :])


def test_get_workloads_loads_nothing_that_a_table_does_not_need() -> None:
    with ScriptedServer(example_state()) as server:
        modules = loaded("-k", "-s", server.url, "get", "workloads")
    assert "ankaios.cli.views.workload_rows" in modules
    assert not modules & NOT_FOR_TABLES


@pytest.mark.parametrize(
    "words",
    [
        ("get", "workloads"),
        ("get", "agents"),
        ("get", "configs"),
        ("get", "devices"),
        ("get", "state"),
        ("describe", "workload", "web"),
    ],
)
def test_a_query_loads_nothing_slow(words: tuple[str, ...]) -> None:
    with ScriptedServer(example_state()) as server:
        assert not loaded("-k", "-s", server.url, *words) & SLOW


def test_an_update_loads_nothing_slow() -> None:
    with served(Cluster()) as server:
        assert not loaded("-k", "-s", server.url, "apply", "-", stdin=MANIFEST) & SLOW
        assert not loaded("-k", "-s", server.url, "--no-wait", "delete", "workload", "web") & SLOW
    cluster = Cluster(added=[f"db.{DB_ID}.n1"])
    cluster.state.agents.Clear()  # so that the command does not wait
    with served(cluster) as server:
        assert not loaded("-k", "-s", server.url, "apply", "-", stdin=MANIFEST) & SLOW


def test_help_loads_nothing_slow() -> None:
    assert not loaded("--help") & SLOW
    assert not loaded("get", "workloads", "--help") & SLOW
