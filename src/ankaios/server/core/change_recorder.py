"""Records changes of the complete state while they are made, so that whole states need not be compared.

The complete state is one tree of maps that are changed in place, entry by entry; entries themselves are only replaced.
Before an entry is set or dropped its path is touched here. At the end two sparse trees are compared: what the touched
paths led to before, and what they lead to now. A map above a touched entry is in a sparse tree if it was in the state.
"""

from typing import Any

from ankaios.common.state_manipulation import Differences, Form, Path, differences

_Touched = dict[str, "_Touched"]


class ChangeRecorder:
    """Records between `start` and `finish`; costs nothing otherwise."""

    def __init__(self, root: Form) -> None:
        self._root = root
        self._touched: _Touched | None = None
        self._before: Form = {}

    def start(self) -> None:
        self._touched, self._before = {}, {}

    def stop(self) -> None:
        """Forget what was recorded."""
        self._touched, self._before = None, {}

    def touch(self, path: Path) -> None:
        """The first touch of a path keeps the present value, so it must come before the change."""
        if self._touched is None:
            return
        touched, before, now = self._touched, self._before, self._root
        for place, part in enumerate(path):
            if part not in touched:
                touched[part] = {}
                if before is not _ABSENT and part in now:
                    before[part] = now[part] if place == len(path) - 1 else {}
            touched, before, now = touched[part], before.get(part, _ABSENT), now.get(part, _ABSENT)

    def finish(self) -> Differences:
        """What changed since `start`."""
        touched, before = self._touched or {}, self._before
        self.stop()
        return differences(before, _sparse(self._root, touched))


# Stands for a missing map; it stays empty.
_ABSENT: Form = {}


def _sparse(now: Form, touched: _Touched) -> Form:
    return {part: _part(now[part], below) for part, below in touched.items() if part in now}


def _part(value: Any, touched: _Touched) -> Any:
    return _sparse(value, touched) if touched else value
