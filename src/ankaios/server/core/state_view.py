"""The complete state, or the parts of it that field masks select, as a message.

The two responses differ in one point that clients rely on: without masks every optional part is set, with masks empty
parts are unset.

[impl->swdd~server-provides-interface-get-complete-state~2]
"""

from collections.abc import Iterable, Mapping

from ankaios.common.messages import Respond
from ankaios.common.model.state import COMPLETE_STATE, STATE, WORKLOAD
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.state_events import selected_state
from ankaios.common.state_manipulation import Form, Path, parse_path

_STATES = ("desiredState", "effectiveState")


class StateView:
    """Reads the tree of the complete state. Keeps the messages of unchanged workloads for the next full answer."""

    def __init__(self, tree: Form) -> None:
        self._tree = tree
        self._messages: dict[int, tuple[Form, base.Workload]] = {}

    def fill(self, state: base.CompleteState, masks: Iterable[str]) -> bool:
        """Fill in the response; returns False if the masks are invalid. Paths that do not exist are left out.

        The state is built in the response, because copying a large one is the main cost.
        [impl->swdd~server-filters-get-complete-state-result~2]
        [impl->swdd~server-filters-get-complete-state-result-with-wildcards~1]
        """
        given = list(masks)
        if not given:
            self._fill_with_everything(state)
        elif "" in given:
            return False
        else:
            state.CopyFrom(self.select(path for mask in given if (path := parse_path(mask)) is not None))
        return True

    def select(self, paths: Iterable[Path]) -> base.CompleteState:
        """The parts at the paths, with the fields that are needed to interpret them."""
        return selected_state(self._tree, paths)

    def _fill_with_everything(self, state: base.CompleteState) -> None:
        tree, kept = self._tree, self._messages
        self._messages = {}
        COMPLETE_STATE.fill(state, {name: part for name, part in tree.items() if name not in _STATES})
        for agent in state.agents.agents.values():
            agent.tags.SetInParent()
        self._fill_state(state.desiredState, tree["desiredState"], kept)
        self._fill_state(state.effectiveState, tree["effectiveState"], kept)

    def _fill_state(self, state: base.State, form: Form, kept: Mapping[int, tuple[Form, base.Workload]]) -> None:
        STATE.fill(state, {name: part for name, part in form.items() if name != "workloads"})
        state.configs.SetInParent()
        state.workloads.SetInParent()
        workloads = state.workloads.workloads
        for name, workload in form["workloads"].items():
            entry = kept.get(id(workload)) or self._messages.get(id(workload)) or (workload, filled_workload(workload))
            self._messages[id(workload)] = entry
            workloads[name].CopyFrom(entry[1])


def state_response(view: StateView, request_id: str, masks: Iterable[str]) -> tuple[Respond, bool]:
    """Return the response, and whether the masks are valid.

    [impl->swdd~server-includes-id-in-control-interface-response~1]
    """
    response = base.Response(requestId=request_id)
    response.completeStateResponse.completeState.SetInParent()
    is_valid = view.fill(response.completeStateResponse.completeState, masks)
    return Respond(response), is_valid


class StateSnapshot:
    """The complete state at one time. Can be read in another thread while the state changes."""

    def __init__(self, tree: Form) -> None:
        self._view = StateView({name: _copied(part, _MAP_LEVELS.get(name, 1)) for name, part in tree.items()})

    def response(self, request: base.Request) -> Respond:
        return state_response(self._view, request.requestId, request.completeStateRequest.fieldMask)[0]


# Entries are replaced and never changed, so only the maps above them are copied.
_MAP_LEVELS = {"desiredState": 2, "effectiveState": 2, "workloadStates": 2}


def _copied(form: Form, levels: int) -> Form:
    if levels == 1:
        return form.copy()
    return {name: _copied(part, levels - 1) if isinstance(part, dict) else part for name, part in form.items()}


_FIRST_OWN_NUMBER = 1000
_PARTS = [it.name for it in base.Workload.DESCRIPTOR.fields if it.message_type and it.number < _FIRST_OWN_NUMBER]


def filled_workload(form: Form) -> base.Workload:
    """A workload with every optional part present: what agents and command lines of Eclipse Ankaios expect."""
    workload = WORKLOAD.from_form(form)
    for part in _PARTS:
        getattr(workload, part).SetInParent()
    return workload
