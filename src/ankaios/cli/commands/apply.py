"""`ank apply`: make the cluster what manifests describe, or (`-d`) take away what they describe."""

from __future__ import annotations

from ankaios.cli.arguments import Command, Option, Positional
from ankaios.cli.commands import CHANGE

COMMAND = Command(
    "apply",
    "Create or replace what manifests describe",
    group=CHANGE,
    options=(
        Option(
            "agent",
            "Run all workloads of the manifests on this agent",
            long="agent",
            value="AGENT_NAME",
            complete="agents",
        ),
        Option("delete", "Delete what the manifests describe", short="d"),
    ),
    positionals=(
        Positional(
            "files", "Manifests, or - for standard input", label="FILE", many=True, required=False, complete="files"
        ),
    ),
    examples=(
        ("ank apply web.yaml db.yaml", "start or change what two manifests describe"),
        ("generate | ank apply --agent n1 -", "a manifest from another program, for this agent"),
        ("ank apply -d web.yaml", "delete what the manifest describes"),
    ),
    run="ankaios.cli.manifests:run",
    bare_help=True,
)
