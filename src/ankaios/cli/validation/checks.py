"""Everything there is to say about manifests before they meet a server: texts come in, findings go out.

First each file by itself, then all together. If nothing is left to complain about, the server's own update is prepared
with them and has the last word, so nothing that it would refuse passes here.
"""

from collections.abc import Iterable, Iterator, Sequence

from ankaios.cli.validation.cluster import Cluster, Entry, gather
from ankaios.cli.validation.dependency_checks import cycles, unknown_dependencies
from ankaios.cli.validation.device_checks import configuration_faults, request_faults
from ankaios.cli.validation.findings import Complaint, Finding, Form, Path, Report, Source
from ankaios.cli.validation.reading import read
from ankaios.cli.validation.runtime_checks import runtime_faults, unknown_runtime
from ankaios.cli.validation.templates import missing_configs, rendered, rendered_faults, template_faults
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.desired_state_draft import change_by_request
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import prepare_update
from ankaios.server.core.update_rejected import UpdateRejected


def validate(texts: Iterable[tuple[str, bytes]], *, complete: bool = True) -> list[Finding]:
    """Names of files and what is in them. They belong together, like the files of one `ank apply`.

    If they are not `complete`, nothing is said about names that are in none of them.
    """
    report = Report()
    sources = [read(name, text, report) for name, text in texts]
    cluster = gather(sources, report, complete=complete)
    for name, entry in cluster.workloads.items():
        _tell(report, entry, (), _workload_faults(name, entry.form, cluster))
    for name, found in cycles(cluster):
        _tell(report, cluster.workloads[name], (), [found])
    for name, entry in cluster.device_configurations.items():
        _tell(report, entry, (), configuration_faults(name, entry.form, cluster))
        if workload := entry.form.get("broker", {}).get("workload"):
            _tell(report, entry, ("broker", "workload"), _broker_faults(workload, cluster))
    if not report.has_errors:
        _last_word(sources, cluster, report)
    return report.findings()


def _workload_faults(name: str, form: Form, cluster: Cluster) -> Iterator[Complaint]:
    yield from unknown_runtime(form)
    yield from unknown_dependencies(form, cluster)
    yield from request_faults(form, cluster)
    yield from missing_configs(form, cluster)
    yield from template_faults(name, form, cluster)
    workload = rendered(name, form, cluster)
    if workload is not None:
        yield from rendered_faults(workload)
        # Lines of the rendered text are lines of the file only if rendering kept their number.
        keeps_lines = workload.form["runtimeConfig"].count("\n") == form["runtimeConfig"].count("\n")
        for found in runtime_faults(workload.form):
            yield found if keeps_lines else found._replace(text_line=None)


def _broker_faults(form: Form, cluster: Cluster) -> Iterator[Complaint]:
    """It gets its name and its agent when there is a device."""
    yield from unknown_runtime(form)
    yield from request_faults(form, cluster)
    if "configs" not in form:
        yield from runtime_faults(form)


def _tell(report: Report, entry: Entry, below: Path, complaints: Iterable[Complaint]) -> None:
    for found in complaints:
        path = (*below, *found.path)
        line = None if found.text_line is None else found.text_line + _trimmed_lines(entry, path)
        report.add(entry.source, found._replace(path=(*entry.path, *path), text_line=line))


def _trimmed_lines(entry: Entry, path: Path) -> int:
    """The server cuts off white space before a runtimeConfig, and with it lines."""
    if path[-1:] != ("runtimeConfig",):
        return 0
    given = entry.given
    for part in path:
        given = given[part]
    text = str(given)
    return text.count("\n", 0, len(text) - len(text.lstrip()))


def _last_word(sources: Sequence[Source], cluster: Cluster, report: Report) -> None:
    desired = cluster.desired_state()
    masks = [f"desiredState.{section}.{name}" for section, entries in cluster.entries.items() for name in entries]
    request = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form({"desiredState": desired}), updateMask=masks)
    state = ServerState()
    try:
        prepare_update(state, change_by_request(state.desired, request))
    except UpdateRejected as fault:
        report.add(sources[0], Complaint((), str(fault)))
