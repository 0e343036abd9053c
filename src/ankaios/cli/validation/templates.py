"""Templates of one workload: what the server's renderer says of each field, and the workload as it would be sent.

Each field is rendered for itself, so that one mistake does not hide the next.
"""

import re
from collections.abc import Iterator

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.cluster import Cluster
from ankaios.cli.validation.findings import WARNING, Complaint, Form, Path
from ankaios.common.errors import Rejected
from ankaios.common.state_manipulation import MISSING
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from ankaios.server.core.conventions import check_rendered_workload

_PLACE = re.compile(r"line (\d+), col \d+")
_MISSING_VARIABLE = re.compile(r'strict mode Some\("([^"]*)"\)')
_LIKE_A_TEMPLATE = re.compile(r"\{\{[#~{]?\s*[A-Za-z_]")


def missing_configs(form: Form, cluster: Cluster) -> Iterator[Complaint]:
    for alias, key in form.get("configs", {}).items():
        if cluster.lacks("configs", key):
            text = f"Workload references config key '{key}' that does not exist in any of these files"
            yield Complaint(("configs", alias), text + cluster.guess("configs", key))


def template_faults(name: str, form: Form, cluster: Cluster) -> Iterator[Complaint]:
    """Only if all configs are known: without its values a template cannot be judged."""
    if "configs" not in form:
        yield from _unrendered(form)
        return
    known = {alias: cluster.configs[key].form for alias, key in form["configs"].items() if key in cluster.configs}
    if len(known) < len(form["configs"]):
        return
    blank = {"configs": form["configs"], "agent": "", "runtimeConfig": ""}
    fields: list[tuple[Path, Form]] = [((key,), {key: form[key]}) for key in ("runtimeConfig", "agent")]
    for index, file in enumerate(form.get("files", ())):
        content = "data" if "data" in file else "binaryData"
        fields.append((("files", index, content), {"files": [file]}))
    for path, part in fields:
        try:
            render_workload(name, blank | part, lambda key: _config(cluster, key))
        except Rejected as fault:
            place = _PLACE.search(str(fault))
            yield Complaint(path, str(fault) + _guess(str(fault), known), text_line=int(place[1]) if place else None)


def _unrendered(form: Form) -> Iterator[Complaint]:
    texts: list[tuple[Path, str]] = [(("runtimeConfig",), form["runtimeConfig"])]
    texts += [(("files", index, "data"), file.get("data", "")) for index, file in enumerate(form.get("files", ()))]
    for path, text in texts:
        if found := _LIKE_A_TEMPLATE.search(text):
            why = "looks like a template but is taken as it is, because the workload has no 'configs'"
            yield Complaint(path, why, WARNING, text.count("\n", 0, found.start()) + 1)


def _guess(fault: str, known: Form) -> str:
    """Which variable was meant, if one is missing."""
    missing = _MISSING_VARIABLE.search(fault)
    found = nearest(missing[1], _variables(known, "")) if missing else None
    return f", did you mean '{found}'?" if found else ""


def _variables(values: Form, prefix: str) -> Iterator[str]:
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _variables(value, f"{prefix}{key}.")


def _config(cluster: Cluster, key: str) -> object:
    return cluster.configs[key].form if key in cluster.configs else MISSING


def rendered(name: str, form: Form, cluster: Cluster) -> RenderedWorkload | None:
    """None if it cannot be rendered, which was told above."""
    try:
        return render_workload(name, form, lambda key: _config(cluster, key))
    except Rejected:
        return None


def rendered_faults(workload: RenderedWorkload) -> Iterator[Complaint]:
    try:
        check_rendered_workload(workload)
    except Rejected as fault:
        text = str(fault)
        path: Path = ("agent",) if "agent name" in text else ("controlInterfaceAccess",)
        yield Complaint(() if text.startswith("Unsupported workload name") else path, text)
