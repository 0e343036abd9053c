"""Commands that a busy workload has not taken yet, and what they will make of it.

A newer command may make a waiting one pointless; so only a handful can wait, however many the server sends.
"""

from collections.abc import Sequence

from ankaios.agent.core.workload_events import Command, Delete, Event, Restart, Update
from ankaios.agent.core.workload_lifecycle import BecomeEmpty, BecomeGone, Workload
from ankaios.common.workload import InstanceName, WorkloadSpec


def target_of(w: Workload, pending: Sequence[Event]) -> WorkloadSpec | None:
    """What it is to become when all commands are done; None if that is nothing."""
    for event in reversed(pending):
        match event:
            case Update(spec):
                return spec
            case Delete():
                return None
            case _:
                pass
    match w.aim:
        case WorkloadSpec() as spec:
            return spec
        case BecomeEmpty() | BecomeGone():
            return None
        case _:
            return None if w.gone or w.empty else w.spec


def instances_of(w: Workload, pending: Sequence[Event]) -> set[tuple[InstanceName, str]]:
    """Everything, with its runtime, of which it may have a container now or when the commands are done."""
    planned = [event.spec for event in pending if isinstance(event, Update)]
    specs = [w.spec, *planned, w.aim if isinstance(w.aim, WorkloadSpec) else None]
    return {(spec.instance_name, spec.runtime) for spec in specs if spec is not None}


def fold(pending: Sequence[Event], new: Command, current: InstanceName) -> tuple[list[Event], list[InstanceName]]:
    """Put a command behind those a busy task has not taken yet; what a newer command makes pointless is left out.

    Answers also the instances that now never start, so that their end can be reported. At most a handful of commands
    can wait, however many the server sends.
    """
    rest, skipped = list(pending), []
    while rest and _is_pointless(rest[-1], before=new):
        if isinstance(last := rest.pop(), Update) and last.spec is not None:
            skipped.append(last.spec.instance_name)
    already_so = rest[-1:] == [new] or (rest[-1:] == [Delete()] and new == Update(None))
    if not already_so:
        rest.append(new)
    alive = {current} | {event.spec.instance_name for event in rest if isinstance(event, Update) and event.spec}
    return rest, [name for name in skipped if name not in alive]


def _is_pointless(command: Event, before: Command) -> bool:
    match before:
        case Delete():
            return isinstance(command, Update | Restart)
        case Update():
            return isinstance(command, Restart) or (isinstance(command, Update) and command.spec is not None)
        case _:
            return False
