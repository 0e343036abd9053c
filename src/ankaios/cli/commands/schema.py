"""`ank schema`: the JSON schema of manifests, for editors and checks."""

from __future__ import annotations

from ankaios.cli.arguments import Call, Command
from ankaios.cli.commands import TOOLS

COMMAND = Command(
    "schema",
    "Print the JSON schema of manifests",
    group=TOOLS,
    examples=(("ank schema > manifest.schema.json", "let an editor check and complete manifests"),),
    offline=True,
    run="ankaios.cli.commands.schema:run",
)


def run(call: Call) -> int:
    from ankaios.common.model.schema import schema_text

    call.output.write(schema_text())
    return 0
