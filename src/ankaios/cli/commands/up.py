"""`ank up`: a whole cluster in one process, for the first ten minutes and for the work at one's desk."""

from __future__ import annotations

from ankaios.cli.arguments import Command, Option, Positional
from ankaios.cli.commands import TOOLS

_EXAMPLES = (
    ("ank up", "an empty cluster of one node, for 'ank -k apply' in another terminal"),
    ("ank up web.yaml", "run what a manifest describes, with an agent for every name in it"),
    ("ank up -f web.yaml", "show the output of the workloads instead of the table"),
)

COMMAND = Command(
    "up",
    "Run server and agents in this terminal, with what manifests describe",
    group=TOOLS,
    options=(
        Option(
            "names",
            "Name of an agent, may be given several times; default: those in the manifests, else 'node'",
            long="name",
            value="NAME",
            repeat=True,
        ),
        Option(
            "runtimes",
            "Runtime to offer, may be given several times; default: all that work here",
            long="runtime",
            value="RUNTIME",
            repeat=True,
            complete="runtimes",
        ),
        Option("follow", "Show the output of the workloads instead of the table", short="f", long="follow"),
        Option("settle", "End as soon as all workloads have settled, and print the final table", long="settle"),
    ),
    positionals=(Positional("files", "Manifests", label="MANIFEST", many=True, required=False, complete="files"),),
    details=(
        "Listens on this machine only, without TLS, on port 25551 or, if that is taken, on a free one. Ctrl+C stops "
        "and removes everything it started."
    ),
    examples=_EXAMPLES,
    offline=True,
    run="ankaios.cli.up:run",
)
