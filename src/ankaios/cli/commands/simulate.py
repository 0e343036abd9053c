"""`ank simulate`: runs manifests on a simulated cluster and prints what happens."""

from pathlib import Path
from typing import Any

from ankaios.cli.arguments import CommandCall
from ankaios.cli.output import CliError
from ankaios.cli.table import printable
from ankaios.common.errors import Rejected

DEFAULT_SECONDS = 30


def run(call: CommandCall) -> int:
    from ankaios.testing.cluster import TestCluster  # loads server and agent, which no other command needs
    from ankaios.testing.story import check_steps, run_story

    try:
        steps = check_steps(_steps(call.values["script"]))
        with TestCluster(seed=call.values["seed"]) as cluster:
            failure = _failure(lambda: run_story(cluster, [*(("apply", it) for it in call.values["files"]), *steps]))
            for line in cluster.timeline:
                call.output.line(printable(line))
            for error in cluster.internal_errors:
                call.output.line(printable(error))
    except (Rejected, OSError) as error:
        raise CliError(str(error)) from error
    if failure is not None:
        raise CliError(failure)
    return 0


def _failure(work: Any) -> str | None:
    try:
        work()
    except Rejected as fault:
        return str(fault)
    return None


def _steps(script: str | None) -> Any:
    """Without a script, time passes and nothing fails."""
    if script is None:
        return [{"advance": DEFAULT_SECONDS}]
    from ankaios.common.yaml_text import load_yaml

    return load_yaml(Path(script).read_bytes(), f"the story '{script}'")
