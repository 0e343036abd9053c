"""All checks of `ank validate`. Input: the texts of manifests. Output: findings.

First each file is checked, then all files together. If there is no error, the server's own update is prepared with the
manifests, so that everything the server would reject is reported.
"""

from collections.abc import Iterable, Iterator, Sequence

from ankaios.cli.validation.access_rule_checks import check_access_rules
from ankaios.cli.validation.dependency_checks import check_cycles, check_dependencies
from ankaios.cli.validation.device_checks import check_device_configuration, check_resources
from ankaios.cli.validation.findings import Form, ManifestFile, ManifestFinding, Path, Problem, ValidationReport
from ankaios.cli.validation.health_checks import check_health, check_healthy_dependencies
from ankaios.cli.validation.manifest_reading import read_manifest
from ankaios.cli.validation.manifest_set import Entry, ManifestSet, combine
from ankaios.cli.validation.runtime_checks import check_runtime, check_runtime_name
from ankaios.cli.validation.template_checks import check_config_keys, check_rendered, check_templates, render_or_none
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.core.desired_state_draft import change_by_request
from ankaios.server.core.server_state import ServerState
from ankaios.server.core.state_update import prepare_update
from ankaios.server.core.update_rejected import UpdateRejected


def validate(texts: Iterable[tuple[str, bytes]], *, complete: bool = True) -> list[ManifestFinding]:
    """Check files by name and content together, as `ank apply` does.

    If the files are not `complete`, names that are in none of them are not reported.
    """
    report = ValidationReport()
    files = [read_manifest(name, text, report) for name, text in texts]
    manifests = combine(files, report, complete=complete)
    for name, entry in manifests.workloads.items():
        _add(report, entry, (), _check_workload(name, entry.form, manifests))
    for name, problem in check_cycles(manifests):
        _add(report, manifests.workloads[name], (), [problem])
    for name, entry in manifests.device_configurations.items():
        _add(report, entry, (), check_device_configuration(name, entry.form, manifests))
        if workload := entry.form.get("broker", {}).get("workload"):
            _add(report, entry, ("broker", "workload"), _check_broker(workload, manifests))
    if not report.has_errors:
        _check_by_server(files, manifests, report)
    return report.findings()


def _check_workload(name: str, form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    yield from check_runtime_name(form)
    yield from check_access_rules(form)
    yield from check_dependencies(form, manifests)
    yield from check_healthy_dependencies(form, manifests)
    yield from check_health(form)
    yield from check_resources(form, manifests)
    yield from check_config_keys(form, manifests)
    yield from check_templates(name, form, manifests)
    workload = render_or_none(name, form, manifests)
    if workload is not None:
        yield from check_rendered(workload)
        # The line numbers of the rendered text are valid in the file only if both have the same number of lines.
        keeps_lines = workload.form["runtimeConfig"].count("\n") == form["runtimeConfig"].count("\n")
        for problem in check_runtime(workload.form):
            yield problem if keeps_lines else problem._replace(text_line=None)


def _check_broker(form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    """A broker gets its name and agent when a device is discovered, so they are not checked."""
    yield from check_runtime_name(form)
    yield from check_health(form)
    yield from check_resources(form, manifests)
    yield from check_config_keys(form, manifests)
    if "configs" not in form:
        yield from check_runtime(form)


def _add(report: ValidationReport, entry: Entry, below: Path, problems: Iterable[Problem]) -> None:
    for problem in problems:
        path = (*below, *problem.path)
        line = None if problem.text_line is None else problem.text_line + _leading_lines(entry, path)
        report.add(entry.file, problem._replace(path=(*entry.path, *path), text_line=line))


def _leading_lines(entry: Entry, path: Path) -> int:
    """The number of empty lines that the server removes at the beginning of a runtimeConfig."""
    if path[-1:] != ("runtimeConfig",):
        return 0
    given = entry.given
    for part in path:
        given = given[part]
    text = str(given)
    return text.count("\n", 0, len(text) - len(text.lstrip()))


def _check_by_server(files: Sequence[ManifestFile], manifests: ManifestSet, report: ValidationReport) -> None:
    desired = manifests.desired_state()
    masks = [f"desiredState.{section}.{name}" for section, entries in manifests.entries.items() for name in entries]
    request = base.UpdateStateRequest(newState=COMPLETE_STATE.from_form({"desiredState": desired}), updateMask=masks)
    state = ServerState()
    try:
        prepare_update(state, change_by_request(state.desired, request))
    except UpdateRejected as error:
        report.add(files[0], Problem((), str(error)))
