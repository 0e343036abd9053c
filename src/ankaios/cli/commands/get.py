"""`ank get ...`: the words; each view is a module of its own."""

from ankaios.cli.arguments import Command, Option, Positional
from ankaios.cli.commands import LOOK

_FORMAT = Option(
    "format", "Output format, default yaml", short="o", value="FORMAT", choices=("yaml", "json"), default="yaml"
)
_MASKS = Positional(
    "masks",
    "Parts of the state, such as desiredState.workloads.web or workloadStates.*; none means everything",
    label="MASK",
    many=True,
    required=False,
    complete="masks",
)

COMMAND = Command(
    "get",
    "Show the state, workloads, agents, configs, devices, or events as they happen",
    group=LOOK,
    examples=(("ank get workloads", "a table of all workloads"),),
    children=(
        Command(
            "state",
            "Show the complete state or parts of it",
            options=(_FORMAT,),
            positionals=(_MASKS,),
            examples=(
                ("ank get state desiredState.workloads.web", "what was asked for"),
                ("ank get state -o json 'workloadStates.*.*.*.state'", "how all workloads are doing, for scripts"),
            ),
            run="ankaios.cli.commands.get_state:run",
        ),
        Command(
            "workload",
            "Show workloads and how they are doing",
            aliases=("workloads",),
            options=(
                Option(
                    "agent", "Only those on this agent", short="a", long="agent", value="AGENT_NAME", complete="agents"
                ),
                Option("state", "Only those in this state", short="s", long="state", value="STATE", complete="states"),
                Option("watch", "Show again whenever something changes", short="w", long="watch"),
            ),
            positionals=(
                Positional(
                    "names",
                    "Only these workloads",
                    label="WORKLOAD_NAME",
                    many=True,
                    required=False,
                    complete="workloads",
                ),
            ),
            examples=(
                ("ank get workloads --agent n1 --state 'Running(Ok)'", "what runs on one agent"),
                ("ank get workloads --watch", "watch all"),
            ),
            run="ankaios.cli.commands.get_workloads:run",
        ),
        Command(
            "agent",
            "Show the connected agents",
            aliases=("agents",),
            examples=(("ank get agents", "a table of all agents"),),
            run="ankaios.cli.commands.get_agents:run",
        ),
        Command(
            "config",
            "Show the keys of the configuration items",
            aliases=("configs",),
            examples=(("ank get configs", "all keys"),),
            run="ankaios.cli.commands.get_configs:run",
        ),
        Command(
            "events",
            "Show changes of the state as they happen",
            options=(
                _FORMAT,
                Option(
                    "include_current_state", "Start with the current state", short="c", long="include-current-state"
                ),
            ),
            positionals=(_MASKS,),
            examples=(
                ("ank get events 'workloadStates.*.*.*.state'", "every change of a workload's state"),
                ("ank get events -o json agents", "agents that come and go, one line for each event"),
            ),
            run="ankaios.cli.commands.get_events:run",
        ),
        Command(
            "device",
            "Show discovered devices, their slots and who uses them",
            aliases=("devices",),
            examples=(("ank get devices", "a table of all devices"),),
            run="ankaios.cli.commands.get_devices:run",
        ),
        Command(
            "resource",
            "Show what the agents offer to workloads",
            aliases=("resources",),
            examples=(("ank get resources", "a table of all resources by agent"),),
            run="ankaios.cli.commands.get_devices:run_resources",
        ),
    ),
)
