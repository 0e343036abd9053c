"""Declarations of the commands about revisions of the desired state: `history`, `diff` and `rollback`."""

from ankaios.cli.command_line.argument_values import revision_number
from ankaios.cli.command_line.arguments import Command, Option
from ankaios.cli.tree.shared_arguments import ATOMIC_OPTIONS, REVISION

HISTORY = Command(
    "history",
    "Show the changes of the desired state: when, by whom, and what",
    "history:list_revisions",
    options=(
        Option(
            "-w, --workload <WORKLOAD_NAME>",
            "Only changes of this workload, may be given several times",
            repeat=True,
            complete="workloads",
        ),
        Option("-n, --limit <NUMBER>", "The newest so many changes, default 20", convert=revision_number, default=20),
    ),
    children=(
        Command(
            "show",
            "Show one change with the values before and after",
            "history:show_revision",
            positionals=(REVISION,),
            examples=(("ank history show 7", "what revision 7 changed"),),
        ),
    ),
    details="Every accepted change of the desired state is a revision. The server keeps the newest ones.",
    examples=(
        ("ank history", "the newest changes"),
        ("ank history --workload web", "the changes of one workload"),
        ("ank history show 7", "what revision 7 changed"),
    ),
)

DIFF = Command(
    "diff",
    "Show what changed between two revisions, or since a revision",
    "history:show_difference",
    positionals=(
        REVISION._replace(name="first", summary="The earlier revision"),
        REVISION._replace(name="second", display="[REVISION]", summary="The later one, by default the current"),
    ),
    examples=(("ank diff 5", "what changed after revision 5"), ("ank diff 5 7", "what revisions 6 and 7 changed")),
)

ROLLBACK = Command(
    "rollback",
    "Restore the desired state of an earlier revision",
    "history:roll_back",
    options=(
        Option(
            "-w, --workload <WORKLOAD_NAME>",
            "Restore only this workload, may be given several times",
            repeat=True,
            complete="workloads",
        ),
        *ATOMIC_OPTIONS,
    ),
    positionals=(REVISION,),
    details="A rollback is a new change and a new revision, so it can be reverted, too.",
    examples=(
        ("ank rollback 5", "return to the desired state of revision 5"),
        ("ank rollback 5 --workload web", "return to the workload of revision 5; all others stay"),
        ("ank rollback 5 --atomic", "keep the current state if the workloads of revision 5 do not become ready"),
    ),
)
