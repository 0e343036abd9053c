import pytest

from ankaios.cli.terminal.keyboard import split_keys
from ankaios.cli.top.top_model import SORTS, NodeRow, TopRow, View, node_rows, press, top_rows
from ankaios.cli.views.workload_rows import Instance, WorkloadRow
from ankaios.common.pb import ank_base_pb2 as base

RUNNING = base.ExecutionState(running=base.RUNNING_OK)
FAILED = base.ExecutionState(failed=base.FAILED_EXEC_FAILED, restarts=3)
PENDING = base.ExecutionState(pending=base.PENDING_STARTING)
UNHEALTHY = base.ExecutionState(
    running=base.RUNNING_OK, health=base.HealthState(status=base.HEALTH_UNHEALTHY, text="no answer")
)
STATES = {"idle": RUNNING, "busy": RUNNING, "failed": FAILED, "pending": PENDING, "unhealthy": UNHEALTHY}
CPU = {"idle": 1, "busy": 900, "unhealthy": 5}


def instance(name: str) -> Instance:
    return (name, "1", "n1" if name in ("busy", "idle") else "n2")


def rows(view: View = View()) -> list[TopRow]:  # noqa: B008
    table = {
        instance(name): WorkloadRow(instance(name), "native", "", "").with_state(state)
        for name, state in STATES.items()
    }
    usage = {instance(name): base.ResourceUsage(cpuMillis=cpu, memoryBytes=1000 - cpu) for name, cpu in CPU.items()}
    return top_rows(table.values(), usage, view)


def names(view: View = View()) -> list[str]:  # noqa: B008
    return [top.row.name for top in rows(view)]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("problem", ["unhealthy", "failed", "pending", "busy", "idle"]),
        ("cpu", ["busy", "unhealthy", "idle", "failed", "pending"]),
        ("memory", ["idle", "unhealthy", "busy", "failed", "pending"]),
        ("restarts", ["failed", "busy", "idle", "pending", "unhealthy"]),
        ("name", ["busy", "failed", "idle", "pending", "unhealthy"]),
    ],
)
def test_rows_are_sorted_by_problem_then_load_or_as_chosen(sort: str, order: list[str]) -> None:
    assert names(View(sort=sort)) == order


@pytest.mark.parametrize(
    ("text", "found"), [("FAIL", ["failed"]), ("n1", ["busy", "idle"]), ("zzz", []), ("starting", ["pending"])]
)
def test_a_filter_matches_names_nodes_and_states(text: str, found: list[str]) -> None:
    assert sorted(names(View(filter=text))) == found


def test_nodes_count_their_workloads_and_problems() -> None:
    status = base.AgentStatus(cpu_usage=base.CpuUsage(cpu_usage=50), free_memory=base.FreeMemory(free_memory=7))
    agents = {name: base.AgentAttributes(status=status) for name in ("n1", "n2", "n3")}
    assert node_rows(agents, rows()) == [
        NodeRow("n2", 50, 7, 3, 2),
        NodeRow("n1", 50, 7, 2, 0),
        NodeRow("n3", 50, 7, 0, 0),
    ]


def pressed(*keys: str) -> View:
    view = View()
    for key in keys:
        view = press(view, key, rows(view))
    return view


def test_keys_select_a_row_and_open_panes() -> None:
    assert pressed("down").selected == instance("unhealthy")
    assert pressed("down", "down").selected == instance("failed")
    assert pressed("down", "down", "up", "up").selected == instance("unhealthy")
    assert pressed("w") == View(pane="why", selected=instance("unhealthy"))
    assert pressed("down", "down", "l").pane == "logs"
    assert pressed("w", "down").selected == instance("unhealthy")
    assert pressed("?").pane == "help"
    assert pressed("x") == View()


def test_q_closes_a_pane_before_it_ends() -> None:
    assert pressed("l", "q") == View(selected=instance("unhealthy"))
    assert pressed("q").ended


def test_a_key_selects_the_next_sort_order() -> None:
    assert [pressed(*"s" * number).sort for number in range(len(SORTS) + 1)] == [*SORTS, SORTS[0]]


def test_a_filter_is_typed_kept_and_removed() -> None:
    assert pressed("/", "q", "x", "backspace").filter == "q"
    assert pressed("/", "a", "enter") == View(filter="a")
    assert pressed("/", "a", "escape") == View()
    assert pressed("/", "a", "enter", "escape") == View()
    assert pressed("/", "up").typing


def test_without_rows_nothing_is_selected() -> None:
    view = View(filter="zzz")
    for key in ("down", "w", "l"):
        assert press(view, key, []) == view


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("\x1b", ["escape"]),
        ("\r\x7fä", ["enter", "backspace", "ä"]),
        ("\x1b[1;5Cx\x1b[3~", ["x"]),
        ("\x1b[", []),
        ("\x00\x07", []),
    ],
)
def test_keys_are_split(text: str, keys: list[str]) -> None:
    assert split_keys(text) == keys
