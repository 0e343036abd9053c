"""`ank simulate`: runs manifests on a simulated cluster and prints what happens."""

from pathlib import Path
from typing import Any

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.terminal.table import printable

DEFAULT_SECONDS = 30


def run(call: CommandCall) -> None:
    from ankaios.testing.cluster import TestCluster  # loads server and agent, which no other command needs
    from ankaios.testing.story import check_steps, run_story

    steps = check_steps(_steps(call.values["script"]))
    with TestCluster(seed=call.values["seed"]) as cluster:
        try:
            run_story(cluster, [*(("apply", file) for file in call.values["files"]), *steps])
        finally:
            call.output.lines(map(printable, (*cluster.timeline, *cluster.internal_errors)))


def _steps(script: str | None) -> Any:
    """Without a script, time passes and nothing fails."""
    if script is None:
        return [{"advance": DEFAULT_SECONDS}]
    from ankaios.common.yaml_text import load_yaml

    return load_yaml(Path(script).read_bytes(), f"the story '{script}'")
