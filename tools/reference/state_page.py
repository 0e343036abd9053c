"""The page about the complete state: what `ank get state` prints and what masks select."""

from ankaios.common.model.state import COMPLETE_STATE, STATE
from tools.reference.markdown import page_of
from tools.reference.object_tables import sections

MANIFEST = "manifest.md"


def page() -> str:
    return page_of(
        "State",
        "src/ankaios/common/model/state.py",
        "`ank get state` prints the complete state. Field masks, update masks and access rules select parts of it by "
        "paths such as `desiredState.workloads.web.tags` or `workloadStates.*.*.*.state`: keys with `.` between them, "
        "where `*` stands for every key of a map. Elements of lists have no path. A field that is unset, and an empty "
        f"map or list, is left out. Desired and effective state have the fields of a [manifest]({MANIFEST}).",
        *sections(COMPLETE_STATE, {STATE.name: f"{MANIFEST}#top-level"}),
    )
