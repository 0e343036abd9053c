"""Commands that the busy task of a workload has not taken yet.

Input: the workload, its pending commands and a new command. Output: the reduced list of commands, and the target of the
workload. A newer command replaces older ones, so that only a few commands can wait, independently of the server.
"""

from collections.abc import Sequence

from ankaios.agent.core.workload_events import Command, Delete, Event, Restart, Update
from ankaios.agent.core.workload_lifecycle import BecomeEmpty, BecomeGone, Workload
from ankaios.common.workload import InstanceName, WorkloadSpec


def target_of(w: Workload, pending: Sequence[Event]) -> WorkloadSpec | None:
    """Return the specification after all commands are done; None after a delete."""
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
    """Return the instances, with runtime, of which containers may exist now or after the commands are done."""
    planned = [event.spec for event in pending if isinstance(event, Update)]
    own = None if w.empty or w.gone else w.spec
    specs = [own, *planned, w.aim if isinstance(w.aim, WorkloadSpec) else None]
    return {(spec.instance_name, spec.runtime) for spec in specs if spec is not None}


def fold(pending: Sequence[Event], new: Command, current: InstanceName) -> tuple[list[Event], list[InstanceName]]:
    """Append a command to the pending ones, and remove those that the new command replaces.

    Return also the instances that are skipped by that, so that they can be reported as removed.
    """
    rest, skipped = list(pending), []
    while rest and _is_replaced(rest[-1], by=new):
        if isinstance(last := rest.pop(), Update) and last.spec is not None:
            skipped.append(last.spec.instance_name)
    already_so = rest[-1:] == [new] or (rest[-1:] == [Delete()] and new == Update(None))
    if not already_so:
        rest.append(new)
    alive = {current} | {event.spec.instance_name for event in rest if isinstance(event, Update) and event.spec}
    return rest, [name for name in skipped if name not in alive]


def _is_replaced(command: Event, by: Command) -> bool:
    match by:
        case Delete():
            return isinstance(command, Update | Restart)
        case Update():
            return isinstance(command, Restart) or (isinstance(command, Update) and command.spec is not None)
        case _:
            return False
