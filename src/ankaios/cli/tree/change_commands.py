"""Declarations of the commands that change the cluster: `plan`, `apply`, `run`, `set` and `delete`."""

from ankaios.cli.command_line.argument_values import revision_number, tag, update_mask
from ankaios.cli.command_line.arguments import Command, Option, Positional
from ankaios.cli.tree.shared_arguments import ATOMIC_OPTIONS, TEXT_OR_JSON, WORKLOADS

_MANIFESTS = Positional("files", "[FILE]...", "Manifests, or - for standard input", complete="files")
_AGENT = Option("--agent <AGENT_NAME>", "Run all workloads of the manifests on this agent", complete="agents")

PLAN = Command(
    "plan",
    "Show what applying manifests would do, without doing it",
    bare_help=True,
    options=(
        _AGENT,
        Option("-d", "Plan to delete what the manifests describe", key="delete"),
        TEXT_OR_JSON,
        Option("--exit-code", "Exit with 3 if something would change"),
    ),
    positionals=(_MANIFESTS,),
    details=(
        "The server evaluates the manifests as 'ank apply' would, including mutating hooks. Shown are the workloads "
        "that would be created (+), changed (~) or deleted (-), in which order, the fields that differ after templates "
        "are rendered, and what the workloads would wait for. The exit code is 1 if the server would reject the "
        "manifests."
    ),
    examples=(
        ("ank plan web.yaml", "what would 'ank apply web.yaml' do?"),
        ("ank plan --exit-code web.yaml", "exit code 3 if something would change"),
        ("ank plan -o json -d web.yaml", "what would be deleted, for programs"),
    ),
)

APPLY = Command(
    "apply",
    "Create or replace what manifests describe",
    bare_help=True,
    options=(
        _AGENT,
        Option("-d", "Delete what the manifests describe", key="delete"),
        Option("--dry-run", "Show what would be done, as 'ank plan'"),
        *ATOMIC_OPTIONS,
        Option(
            "--if-revision <REVISION>",
            "Only if nothing in the manifests was changed after this revision",
            convert=revision_number,
            complete="revisions",
        ),
    ),
    positionals=(_MANIFESTS,),
    examples=(
        ("ank apply web.yaml db.yaml", "start or change what two manifests describe"),
        ("generate | ank apply --agent n1 -", "a manifest from another program, for this agent"),
        ("ank apply -d web.yaml", "delete what the manifest describes"),
        ("ank apply --if-revision 7 web.yaml", "fail if the workload was changed after revision 7"),
        ("ank apply --atomic --timeout 2m web.yaml", "restore the previous state if it is not ready in two minutes"),
    ),
)

ROLLOUT = Command(
    "rollout",
    "Show atomic changes that the server monitors",
    children=(
        Command(
            "status",
            "Show running rollouts and the last ones that have ended",
            "rollout:show_status",
            options=(
                TEXT_OR_JSON,
                Option("-f, --follow", "Continue until the rollouts have ended"),
            ),
            positionals=(Positional("names", "[ROLLOUT]...", "Only these rollouts, with their workloads"),),
            examples=(
                ("ank rollout status", "all running rollouts, and the last ones that have ended"),
                ("ank rollout status -f rollout-3", "follow one rollout until it has ended"),
            ),
        ),
    ),
)

RUN = Command(
    "run",
    "Run a workload without a manifest",
    children=(
        Command(
            "workload",
            "Run a workload and wait until it runs",
            options=(
                Option("--runtime <RUNTIME_NAME>", "For example podman", required=True, complete="runtimes"),
                Option("--config <RUNTIME_CONFIG>", "Configuration for the runtime", required=True),
                Option("--agent <AGENT_NAME>", "Agent that runs it", required=True, complete="agents"),
                Option("--tags <KEY=VALUE>", "A tag, may be given several times", convert=tag, repeat=True),
            ),
            positionals=(Positional("name", "<WORKLOAD_NAME>", "Name of the new workload"),),
            examples=(
                (
                    "ank run workload web --runtime podman --agent n1 --config 'image: alpine:3'",
                    "run a container on an agent",
                ),
            ),
        ),
    ),
)

SET = Command(
    "set",
    "Set parts of the state",
    children=(
        Command(
            "state",
            "Set the parts of the state that masks select to the content of a file",
            positionals=(
                Positional("masks", "<MASK>...", "Parts of the state", convert=update_mask, complete="masks"),
                Positional(
                    "file", "<FILE>", "State in the form of 'ank get state', or - for standard input", complete="files"
                ),
            ),
            details="A part that is not in the file is deleted.",
            examples=(
                ("ank set state desiredState.workloads.web.tags state.yaml", "set the tags of a workload"),
                ("ank get state | edit | ank set state desiredState -", "replace everything"),
            ),
        ),
    ),
)

DELETE = Command(
    "delete",
    "Delete workloads, configuration items or device configurations",
    examples=(("ank delete workload web", "stop and remove a workload"),),
    children=(
        Command(
            "workload",
            "Delete workloads and wait until they are removed",
            "delete:delete_workloads",
            aliases=("workloads",),
            positionals=(WORKLOADS,),
            examples=(("ank delete workload web db", "stop and remove two workloads"),),
        ),
        Command(
            "config",
            "Delete configuration items",
            "delete:delete_configs",
            aliases=("configs",),
            positionals=(Positional("names", "<CONFIG_NAME>...", "Keys of the items", complete="configs"),),
            examples=(("ank delete config ports", "remove one item"),),
        ),
        Command(
            "device-configuration",
            "Delete device configurations, with their brokers",
            "delete:delete_device_configurations",
            aliases=("device-configurations",),
            positionals=(
                Positional("names", "<NAME>...", "Names of the configurations", complete="deviceConfigurations"),
            ),
            details="A workload that uses a device continues as defined by onDeviceLost of the configuration.",
            examples=(("ank delete device-configuration camera", "discover no cameras any more"),),
        ),
    ),
)
