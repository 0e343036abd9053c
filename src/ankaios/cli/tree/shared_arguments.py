"""Arguments that several commands have."""

from ankaios.cli.command_line.argument_values import duration_ms, revision_number
from ankaios.cli.command_line.arguments import Option, Positional

TEXT_OR_JSON = Option(
    "-o <FORMAT>", "Output format, default text", key="format", choices=("text", "json"), default="text"
)
WORKLOAD = Positional("name", "<WORKLOAD_NAME>", "Name of the workload", complete="workloads")
WORKLOADS = Positional("workloads", "<WORKLOAD_NAME>...", "Names of the workloads", complete="workloads")
REVISION = Positional(
    "revision", "<REVISION>", "Number of a revision, from 'ank history'", convert=revision_number, complete="revisions"
)
ATOMIC_OPTIONS = (
    Option("--atomic", "Let the server monitor the change and restore the previous state if it fails"),
    Option(
        "--timeout <DURATION>",
        "With --atomic: time for the workloads to become ready, default 60s",
        convert=duration_ms,
        default=60_000,
    ),
    Option(
        "--settle <DURATION>",
        "With --atomic: time for which they have to stay ready, default 5s",
        convert=duration_ms,
        default=5_000,
    ),
)
