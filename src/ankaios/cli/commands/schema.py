"""`ank schema`: the JSON schema of manifests, for editors and other tools."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.common.model.schema import schema_text


def run(call: CommandCall) -> None:
    call.output.write(schema_text())
