"""`ank get configs`: the keys of the configuration items."""

from __future__ import annotations

from ankaios.cli.arguments import Call
from ankaios.cli.connection import Session, run_session
from ankaios.cli.failures import told_as
from ankaios.cli.plain_table import print_table

HEADER = ("CONFIG",)


def run(call: Call) -> int:
    def action(session: Session) -> None:
        state = session.complete_state("desiredState.configs")
        print_table(call.output, HEADER, [(key,) for key in sorted(state.desiredState.configs.configs)])

    with told_as("Failed to get configs"):
        run_session(call, action)
    return 0
