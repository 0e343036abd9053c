"""Checks whether a recorded history of reads and writes of one entry is linearizable. Pure.

Input: operations with the times between which they happened, and their results. Output: whether there is an order of
all operations that respects these times, in which each read returns the last written value. A write whose result is not
known may have happened at any time after its start, or never. The search follows Wing and Gong: repeatedly choose an
operation that no other one precedes, and try it; states that were tried before are not tried again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEVER = float("inf")


@dataclass(frozen=True)
class Recorded:
    """`writes` is False for a read of `value`. A write that failed is not recorded. `end` is NEVER if not known."""

    start: float
    end: float
    value: object
    writes: bool = True


def is_linearizable(operations: Iterable[Recorded], initial: object = None) -> bool:
    history = sorted(operations, key=lambda operation: (operation.start, operation.end))
    tried: set[tuple[frozenset[int], object]] = set()
    stack: list[tuple[frozenset[int], object]] = [(frozenset(), initial)]
    certain = frozenset(index for index, operation in enumerate(history) if operation.end != NEVER)
    while stack:
        state = stack.pop()
        if state in tried:
            continue
        tried.add(state)
        done, value = state
        if certain <= done:
            return True
        stack += _next_states(history, done, value)
    return False


def _next_states(
    history: list[Recorded], done: frozenset[int], value: object
) -> Iterable[tuple[frozenset[int], object]]:
    remaining = [index for index in range(len(history)) if index not in done]
    first_end = min(history[index].end for index in remaining)
    for index in remaining:
        operation = history[index]
        if operation.start > first_end:
            break  # another operation ended before this one started
        if operation.writes:
            yield done | {index}, operation.value
        elif operation.value == value:
            yield done | {index}, value


def violations(histories: Mapping[str, Iterable[Recorded]]) -> list[str]:
    """The names of the entries whose histories are not linearizable."""
    return [name for name, operations in histories.items() if not is_linearizable(operations)]
