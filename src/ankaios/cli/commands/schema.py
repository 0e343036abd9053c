"""`ank schema`: the JSON schema of manifests, for editors and other tools."""

from ankaios.cli.arguments import CommandCall
from ankaios.common.manifest import schema_text


def run(call: CommandCall) -> None:
    call.output.write(schema_text())
