"""`ank logs`: the output of workloads, as it is or as it comes."""

from __future__ import annotations

from ankaios.cli.arguments import Command, Option, Positional
from ankaios.cli.commands import LOOK


def line_count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError("invalid digit found in string") from None
    if not -(2**31) <= count < 2**31:
        raise ValueError("number too large to fit in target type")
    return count


COMMAND = Command(
    "logs",
    "Show the output of workloads",
    group=LOOK,
    options=(
        Option("follow", "Go on with what comes", short="f", long="follow"),
        Option(
            "tail",
            "Only the last lines, default all",
            short="t",
            long="tail",
            value="N",
            convert=line_count,
            default=-1,
            negative=True,
        ),
        Option("names", "Put the workload name before every line", short="n", long="names"),
        Option("since", "Only what is newer than this RFC 3339 time", short="s", long="since", value="TIMESTAMP"),
        Option("until", "Only what is older than this RFC 3339 time", short="u", long="until", value="TIMESTAMP"),
    ),
    positionals=(Positional("workloads", "Which workloads", label="WORKLOAD_NAME", many=True, complete="workloads"),),
    examples=(
        ("ank logs -f --tail 10 web", "the last ten lines and everything new"),
        ("ank logs -n web db --since 2026-03-01T08:00:00Z", "two workloads since eight o'clock"),
    ),
    run="ankaios.cli.log_view:run",
    bare_help=True,
)
