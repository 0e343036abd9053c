from ankaios.common.workload import DeleteCondition
from ankaios.server.core.delete_graph import DeleteGraph

WAIT = DeleteCondition.DEL_COND_NOT_PENDING_NOR_RUNNING


def a_graph() -> DeleteGraph:
    graph = DeleteGraph()
    graph.insert("web", {"db": "ADD_COND_RUNNING", "init": "ADD_COND_SUCCEEDED", "watch": "ADD_COND_FAILED"})
    graph.insert("api", {"db": "ADD_COND_HEALTHY"})
    return graph


def test_only_running_dependencies_make_a_delete_wait() -> None:
    """[utest->swdd~server-state-stores-delete-condition~1]"""
    graph = a_graph()
    assert graph.conditions("db") == {"web": WAIT, "api": WAIT}
    assert graph.conditions("init") == {}
    assert graph.conditions("watch") == {}


def test_an_update_of_the_needed_workload_keeps_the_conditions_of_its_dependents() -> None:
    graph = a_graph()
    graph.forget("db", {})
    assert graph.conditions("db") == {"web": WAIT, "api": WAIT}


def test_the_conditions_of_a_workload_end_with_its_dependents() -> None:
    """[utest->swdd~server-removes-obsolete-delete-graph-entires~1]"""
    graph = a_graph()
    for dependent in ("web", "api"):
        graph.forget(dependent, {})
    assert graph.conditions("db") == {}


def test_a_removed_workload_delays_no_deletion() -> None:
    """[utest->swdd~server-removes-obsolete-delete-graph-entires~1]"""
    graph = a_graph()
    graph.forget("web", {})
    assert graph.conditions("db") == {"api": WAIT}
    graph.forget("api", {"db": "ADD_COND_SUCCEEDED"})
    assert graph.conditions("db") == {}


def test_a_removed_workload_whose_successor_needs_the_same_makes_others_wait() -> None:
    graph = a_graph()
    graph.forget("web", {"db": "ADD_COND_RUNNING"})
    assert graph.conditions("db") == {"web": WAIT, "api": WAIT}


def test_workloads_without_entry_are_ignored() -> None:
    """[utest->swdd~server-removes-obsolete-delete-graph-entires~1]"""
    graph = a_graph()
    graph.forget("unknown", {})
    assert graph.conditions("unknown") == {}
    assert graph.conditions("db") == {"web": WAIT, "api": WAIT}


def test_added_and_removed_names_leave_no_data() -> None:
    graph = DeleteGraph()
    for number in range(10):
        graph.insert(f"job-{number}", {"never-there": "ADD_COND_RUNNING"})
        graph.forget(f"job-{number}", {})
    assert vars(graph) == vars(DeleteGraph())
