"""Declarations of the tools: `up`, `validate`, `simulate`, `doctor`, `certs` and `schema`."""

from ankaios.cli.command_line.argument_values import days
from ankaios.cli.command_line.arguments import Command, Option, Positional

UP = Command(
    "up",
    "Run server and agents in this terminal, with the workloads of manifests",
    offline=True,
    options=(
        Option(
            "--name <NAME>",
            "Name of an agent, may be given several times; default: those in the manifests, else 'node'",
            repeat=True,
        ),
        Option(
            "--runtime <RUNTIME>",
            "Runtime to offer, may be given several times; default: all that work here",
            repeat=True,
            complete="runtimes",
        ),
        Option("-f, --follow", "Show the output of the workloads instead of the table"),
        Option("--keep <DIR>", "Keep the desired state in this folder, and continue with it", complete="files"),
        Option("--dashboard", "Also serve the web dashboard, on port 8080 or, if that is in use, on a free one"),
        Option("--settle", "End as soon as all workloads have settled, and print the final table"),
    ),
    positionals=(Positional("files", "[MANIFEST]...", "Manifests", complete="files"),),
    details=(
        "Listens on this machine only, without TLS, on port 25551 or, if that is in use, on a free one. Ctrl+C stops "
        "and removes everything it started."
    ),
    examples=(
        ("ank up", "an empty cluster of one node, for 'ank -k apply' in another terminal"),
        ("ank up web.yaml", "run the workloads of a manifest, with an agent for every agent name in it"),
        ("ank up -f web.yaml", "show the output of the workloads instead of the table"),
        ("ank up --keep ./cluster", "continue where the last 'ank up --keep ./cluster' ended"),
        ("ank up --dashboard web.yaml", "watch it in a web browser"),
    ),
)

VALIDATE = Command(
    "validate",
    "Check manifests without a server",
    offline=True,
    bare_help=True,
    options=(Option("--json", "Print the findings as JSON"),),
    positionals=(Positional("files", "<FILE>...", "Manifests, or - for standard input", complete="files"),),
    details=(
        "Several files are checked as one, as 'ank apply' sends them. The server or an agent would reject an error; a "
        "warning may be intended, or depends on what is not in the files. The exit code is 1 if there are errors."
    ),
    examples=(
        ("ank validate web.yaml db.yaml", "check two manifests that belong together"),
        ("generate | ank validate --json -", "check a manifest from another program, for another program"),
    ),
)

SIMULATE = Command(
    "simulate",
    "Run manifests on a simulated cluster and print what happens",
    offline=True,
    bare_help=True,
    options=(
        Option("--script <FILE>", "Story: a YAML list of steps such as '- kill: zone1'", complete="files"),
        Option("--seed <N>", "Seed of all delays, default 0", convert=int, default=0),
    ),
    positionals=(Positional("files", "<MANIFEST>...", "Manifests", complete="files"),),
    details=(
        "Server and agents run in this process on virtual time; workloads are simulated, so nothing is started on this "
        "machine. Every agent that a manifest names gets a node. The exit code is 1 if an expectation of the story is "
        "not met."
    ),
    examples=(
        ("ank simulate web.yaml", "the start order of a manifest"),
        ("ank simulate web.yaml --script story.yaml", "what happens if nodes, workloads or devices fail"),
    ),
)

DOCTOR = Command(
    "doctor",
    "Check this machine and the connection to the server",
    details="The exit code is 1 if something is wrong. Nothing is changed.",
    examples=(("ank doctor", "check everything"),),
)

CERTS = Command(
    "certs",
    "Create certificates for mutual TLS",
    children=(
        Command(
            "create",
            "Create a certificate authority and certificates for server, agents and command line",
            "certs:run",
            offline=True,
            options=(
                Option(
                    "--agent <NAME>",
                    "Name of an agent, may be given several times; without it one certificate is valid for any agent",
                    repeat=True,
                ),
                Option(
                    "--algorithm <KIND>",
                    "Kind of keys, default ed25519",
                    choices=("ed25519", "ecdsa", "rsa"),
                    default="ed25519",
                ),
                Option("--days <N>", "Days of validity, default 825", convert=days, default=825, negative=True),
            ),
            positionals=(Positional("folder", "<DIR>", "Folder for the files", complete="files"),),
            details=(
                "Existing files are kept, so agents can be added later. Do not copy 'ca-key.pem' to the nodes: its "
                "owner can create certificates that the server trusts."
            ),
            examples=(
                (
                    "ank certs create ./certs --agent front --agent rear",
                    "for a server, two agents and the command line",
                ),
                ("ank certs create ./certs", "one certificate that any agent may use"),
            ),
        ),
    ),
)

SCHEMA = Command(
    "schema",
    "Print the JSON schema of manifests",
    offline=True,
    examples=(("ank schema > manifest.schema.json", "let an editor check and complete manifests"),),
)
