"""`ank describe ...`: the words."""

from ankaios.cli.arguments import Command, Positional
from ankaios.cli.commands import LOOK

COMMAND = Command(
    "describe",
    "Tell all about one workload or device",
    group=LOOK,
    examples=(("ank describe workload web", "state, reason, dependencies and devices of a workload"),),
    children=(
        Command(
            "workload",
            "Tell state, reason, restarts, dependencies and devices of a workload",
            aliases=("workloads",),
            positionals=(Positional("name", "Which workload", label="WORKLOAD_NAME", complete="workloads"),),
            examples=(("ank describe workload web", "why does it not run?"),),
            run="ankaios.cli.commands.describe_workload:run",
        ),
        Command(
            "device",
            "Tell slots, users and properties of a device",
            aliases=("devices",),
            positionals=(Positional("name", "Which device", label="DEVICE_NAME", complete="devices"),),
            examples=(("ank describe device camera-1a2b3c", "who uses it?"),),
            run="ankaios.cli.commands.describe_device:run",
        ),
    ),
)
