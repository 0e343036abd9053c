"""`ank run workload`: one workload without a manifest."""

from __future__ import annotations

from ankaios.cli.arguments import Call, Command, Option, Positional
from ankaios.cli.commands import CHANGE


def tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"invalid KEY=value: no `=` found in `{text}`")
    return key, value


_EXAMPLE = (
    "ank run workload web --runtime podman --agent n1 --config 'image: alpine:3'",
    "run a container on an agent",
)

COMMAND = Command(
    "run",
    "Run a workload without a manifest",
    group=CHANGE,
    examples=(_EXAMPLE,),
    children=(
        Command(
            "workload",
            "Run a workload and wait until it runs",
            options=(
                Option(
                    "runtime",
                    "For example podman",
                    long="runtime",
                    value="RUNTIME_NAME",
                    required=True,
                    complete="runtimes",
                ),
                Option(
                    "config", "What the runtime needs to know", long="config", value="RUNTIME_CONFIG", required=True
                ),
                Option("agent", "Where it runs", long="agent", value="AGENT_NAME", required=True, complete="agents"),
                Option(
                    "tags",
                    "A tag, may be given several times",
                    long="tags",
                    value="KEY=VALUE",
                    convert=tag,
                    repeat=True,
                ),
            ),
            positionals=(Positional("name", "Name of the new workload", label="WORKLOAD_NAME"),),
            examples=(_EXAMPLE,),
            run="ankaios.cli.commands.run:run",
        ),
    ),
)


def run(call: Call) -> int:
    from ankaios.cli.connection import Session, run_session
    from ankaios.cli.failures import told_as
    from ankaios.cli.update import update_and_wait
    from ankaios.common.pb import ank_base_pb2 as base

    values = call.values
    name: str = values["name"]
    new_state = base.CompleteState()
    new_state.desiredState.workloads.workloads[name].CopyFrom(
        base.Workload(
            agent=values["agent"],
            runtime=values["runtime"],
            runtimeConfig=values["config"],
            tags=base.Tags(tags=dict(values["tags"])),
        )
    )

    def action(session: Session) -> None:
        update_and_wait(call, session, new_state, [f"desiredState.workloads.{name}"], [name])
        session.goodbye()

    with told_as("Failed to run workloads"):
        run_session(call, action)
    return 0
