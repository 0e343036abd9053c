"""`ank get devices` and `ank get resources`: what was discovered, who uses it, what is left."""

from __future__ import annotations

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.device_rows import DEVICES_HEADER, RESOURCES_HEADER, device_rows, resource_rows
from ankaios.cli.failures import told_as
from ankaios.cli.plain_table import print_table


def run(call: Call) -> int:
    def action(session: Session) -> None:
        state = session.complete_state("deviceInstances")
        print_table(call.output, DEVICES_HEADER, device_rows(state.deviceInstances))

    with told_as("Failed to get devices"):
        run_session(call, action)
    return 0


def run_resources(call: Call) -> int:
    def action(session: Session) -> None:
        state = session.complete_state("agents")
        print_table(call.output, RESOURCES_HEADER, resource_rows(state.agents))

    with told_as("Failed to get resources"):
        run_session(call, action)
    return 0
