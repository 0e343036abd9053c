"""Declarations of the commands that inspect the cluster: `get`, `describe`, `why` and `logs`."""

from ankaios.cli.command_line.argument_values import line_count, milliseconds_since_1970, point_in_time
from ankaios.cli.command_line.arguments import Command, Option, Positional
from ankaios.cli.tree.shared_arguments import TEXT_OR_JSON, WORKLOAD, WORKLOADS

_FORMAT = Option("-o <FORMAT>", "Output format, default yaml", key="format", choices=("yaml", "json"), default="yaml")
_STATE_MASKS = Positional(
    "masks",
    "[MASK]...",
    "Parts of the state, such as desiredState.workloads.web or workloadStates.*; none means everything",
    complete="masks",
)

GET = Command(
    "get",
    "Show the state, workloads, agents, configs, devices, or events as they happen",
    examples=(("ank get workloads", "a table of all workloads"),),
    children=(
        Command(
            "state",
            "Show the complete state or parts of it",
            options=(_FORMAT,),
            positionals=(_STATE_MASKS,),
            examples=(
                ("ank get state desiredState.workloads.web", "the desired state of one workload"),
                ("ank get state -o json 'workloadStates.*.*.*.state'", "the states of all workloads, for scripts"),
            ),
        ),
        Command(
            "workload",
            "Show workloads and their states",
            "get_workloads:run",
            aliases=("workloads",),
            options=(
                Option("-a, --agent <AGENT_NAME>", "Only workloads on this agent", complete="agents"),
                Option("-s, --state <STATE>", "Only workloads in this state", complete="states"),
                Option("-w, --watch", "Show the table again after every change"),
                Option("-o <FORMAT>", "'wide' adds CPU, memory and uptime", key="format", choices=("table", "wide")),
            ),
            positionals=(Positional("names", "[WORKLOAD_NAME]...", "Only these workloads", complete="workloads"),),
            examples=(
                ("ank get workloads --agent n1 --state 'Running(Ok)'", "the running workloads of one agent"),
                ("ank get workloads --watch", "watch all workloads"),
                ("ank get workloads -o wide", "also what they use"),
            ),
        ),
        Command(
            "agent",
            "Show the connected agents",
            "get_tables:get_agents",
            aliases=("agents",),
            examples=(("ank get agents", "a table of all agents"),),
        ),
        Command(
            "config",
            "Show the keys of the configuration items",
            "get_tables:get_configs",
            aliases=("configs",),
            examples=(("ank get configs", "all keys"),),
        ),
        Command(
            "events",
            "Show changes of the state as they happen",
            options=(
                _FORMAT,
                Option("-c, --include-current-state", "Start with the current state"),
                Option(
                    "--since <TIME>",
                    "Instead: what happened to workloads since then, as 10m or an RFC 3339 time; the arguments are "
                    "names of workloads",
                    convert=milliseconds_since_1970,
                ),
                Option("-f, --follow", "With --since: continue with what happens from now on"),
            ),
            positionals=(_STATE_MASKS,),
            examples=(
                ("ank get events --since 10m", "what happened to workloads in the last ten minutes"),
                ("ank get events 'workloadStates.*.*.*.state'", "every change of a workload's state"),
                ("ank get events -o json agents", "agents that connect and disconnect, one line for each event"),
            ),
        ),
        Command(
            "device",
            "Show discovered devices, their slots, and the workloads that use them",
            "get_tables:get_devices",
            aliases=("devices",),
            examples=(("ank get devices", "a table of all devices"),),
        ),
        Command(
            "server",
            "Show the servers: which one leads, the storage, and the newest revision",
            "get_tables:get_servers",
            aliases=("servers",),
            examples=(("ank get servers", "a table of all servers"),),
        ),
        Command(
            "resource",
            "Show the resources that agents offer to workloads",
            "get_tables:get_resources",
            aliases=("resources",),
            examples=(("ank get resources", "a table of all resources by agent"),),
        ),
    ),
)

DESCRIBE = Command(
    "describe",
    "Show the details of one workload or device",
    examples=(("ank describe workload web", "state, reason, dependencies and devices of a workload"),),
    children=(
        Command(
            "workload",
            "Show state, reason, restarts, dependencies and devices of a workload",
            aliases=("workloads",),
            positionals=(WORKLOAD,),
            examples=(("ank describe workload web", "why does it not run?"),),
        ),
        Command(
            "device",
            "Show slots, users and properties of a device",
            aliases=("devices",),
            positionals=(Positional("name", "<DEVICE_NAME>", "Name of the device", complete="devices"),),
            examples=(("ank describe device camera-1a2b3c", "which workload uses it?"),),
        ),
    ),
)

WHY = Command(
    "why",
    "Explain why a workload is in its state, down to the root cause",
    bare_help=True,
    options=(TEXT_OR_JSON,),
    positionals=(WORKLOAD,),
    details=(
        "Each line explains the one above it: dependencies, failed starts, restarts, devices, placement, health, "
        "agents that are not connected, and how a workload ended, with its last lines of output."
    ),
    examples=(("ank why web", "why does it not run?"), ("ank why -o json web", "the same, for programs")),
)

LOGS = Command(
    "logs",
    "Show the output of workloads",
    bare_help=True,
    options=(
        Option("-f, --follow", "Continue with new output"),
        Option("-t, --tail <N>", "Only the last lines, default all", convert=line_count, default=-1, negative=True),
        Option("-n, --names", "Print the workload name before every line"),
        Option("-s, --since <TIMESTAMP>", "Only output after this RFC 3339 time", convert=point_in_time),
        Option("-u, --until <TIMESTAMP>", "Only output before this RFC 3339 time", convert=point_in_time),
    ),
    positionals=(WORKLOADS,),
    examples=(
        ("ank logs -f --tail 10 web", "the last ten lines and all new ones"),
        ("ank logs -n web db --since 2026-03-01T08:00:00Z", "two workloads since eight o'clock"),
    ),
)

TOP = Command(
    "top",
    "Show nodes and workloads live, with CPU and memory",
    details="Problems are listed first, then the workloads with the highest load. Keys: / filters, s sorts, the arrows "
    "select, w explains the state of the selected workload, l follows its output, q ends.",
    examples=(("ank top", "what runs where, and what does it use?"),),
)

DASHBOARD = Command(
    "dashboard",
    "Show the cluster in a web browser",
    options=(
        Option("-l, --listen <HOST:PORT>", "Where to serve the pages, default 127.0.0.1:8080"),
        Option("--open", "Open the pages in the web browser of this machine"),
        Option("--allow-changes", "Let users of the pages apply manifests and restore revisions"),
        Option("--token-file <PATH>", "Only show pages to browsers that send this token", complete="files"),
        Option("--tls-crt <PATH>", "Serve https with this certificate, and demand one of browsers", complete="files"),
        Option("--tls-key <PATH>", "Private key of the certificate for https", complete="files"),
    ),
    details="The dashboard connects like every other command of 'ank', with the same settings and certificates. Other "
    "addresses than loopback need a token or mutual TLS. The token may also be in ANK_DASHBOARD_TOKEN. With --tls-crt "
    "browsers must show a certificate of the authority in --ca_pem. The command needs the extra ankaios[dashboard].",
    examples=(
        ("ank dashboard --open", "the pages in the web browser of this machine"),
        ("ank dashboard --listen 0.0.0.0:8080 --token-file token", "for other machines that have the token"),
    ),
)
