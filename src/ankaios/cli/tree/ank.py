"""The command `ank` with its global options. `ANK` is the tree of all commands.

To add a command, declare it in one of the modules of this package, add it to a group here, and write its function in
`ankaios.cli.commands`. The declarations import no command, so that help, completion and usage errors are fast.
"""

from ankaios.cli.command_line.argument_values import milliseconds
from ankaios.cli.command_line.arguments import Command, Option
from ankaios.cli.tree.change_commands import APPLY, DELETE, PLAN, ROLLOUT, RUN, SET
from ankaios.cli.tree.history_commands import DIFF, HISTORY, ROLLBACK
from ankaios.cli.tree.inspect_commands import DASHBOARD, DESCRIBE, GET, LOGS, TOP, WHY
from ankaios.cli.tree.tool_commands import CERTS, DOCTOR, SCHEMA, SIMULATE, UP, VALIDATE

GLOBAL_OPTIONS = (
    Option("-x, --ank-config <PATH>", "Configuration file", complete="files"),
    Option(
        "-s, --server-url <URL>",
        "Server address, default https://127.0.0.1:25551; several with commas between them",
        env="ANK_SERVER_URL",
    ),
    Option("--response-timeout <MS>", "Time limit for a response in milliseconds, default 3000", convert=milliseconds),
    Option("-v, --verbose", "Print debug messages"),
    Option("-q, --quiet", "Print only results, warnings and errors"),
    Option("--no-wait", "Do not wait for workloads to be created or deleted"),
    Option("-k, --insecure", "Connect to the server without TLS", env="ANK_INSECURE"),
    Option("--ca_pem <PATH>", "Certificate authority", env="ANK_CA_PEM", complete="files"),
    Option("--crt_pem <PATH>", "Certificate of this client", env="ANK_CRT_PEM", complete="files"),
    Option("--key_pem <PATH>", "Private key of this client", env="ANK_KEY_PEM", complete="files"),
    Option("-V, --version", "Print the version"),
)

GROUPS = {
    "Look at the cluster": (GET, DESCRIBE, WHY, LOGS, TOP, DASHBOARD, HISTORY, DIFF),
    "Change the cluster": (PLAN, APPLY, ROLLOUT, RUN, SET, DELETE, ROLLBACK),
    "Tools": (UP, VALIDATE, SIMULATE, DOCTOR, CERTS, SCHEMA),
}

ANK = Command(
    "ank",
    "Command line of Ankaios: see and change the workloads of a cluster.",
    options=GLOBAL_OPTIONS,
    children=tuple(command._replace(group=group) for group, commands in GROUPS.items() for command in commands),
    details="""\
Exit codes:
  0    success (also if a started workload failed later)
  1    failure, the reason is on standard error
  2    invalid usage
  3    'ank plan --exit-code': something would change
  141  the reader of the output closed the pipe

Configuration file:
  ~/.config/ankaios/ank.conf, else /etc/ankaios/ank.conf; command line, then environment, then file

Shell completion:
  source <(COMPLETE=bash ank)    also: zsh, fish, elvish, powershell""",
    examples=(
        ("ank up web.yaml", "try it: run a cluster in this terminal, with the workloads of a manifest"),
        ("ank -k apply web.yaml", "start the workloads of a manifest on an insecure local server"),
        ("ank get workloads", "show the states of all workloads"),
        ("ank logs -f web", "follow the output of a workload"),
    ),
)
