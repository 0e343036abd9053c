"""Checks the templates of a workload with the renderer of the server, each field separately to find all errors."""

import re
from collections.abc import Iterator

from ankaios.cli.validation.findings import WARNING, Form, Path, Problem
from ankaios.cli.validation.manifest_set import ManifestSet
from ankaios.common.errors import Rejected
from ankaios.common.state_manipulation import MISSING
from ankaios.common.suggestions import suggestion
from ankaios.server.core.config_renderer import RenderedWorkload, render_workload
from ankaios.server.core.conventions import check_rendered_workload

_POSITION = re.compile(r"line (\d+), col \d+")
_MISSING_VARIABLE = re.compile(r'strict mode Some\("([^"]*)"\)')
_LIKE_A_TEMPLATE = re.compile(r"\{\{[#~{]?\s*[A-Za-z_]")


def check_config_keys(form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    for alias, key in form.get("configs", {}).items():
        if manifests.lacks("configs", key):
            text = f"Workload references config key '{key}' that does not exist in any of these files"
            yield Problem(("configs", alias), text + manifests.suggestion("configs", key))


def check_templates(name: str, form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    """Templates are checked only if all their configs are in the files."""
    if "configs" not in form:
        yield from _check_unrendered(form)
        return
    known = {alias: manifests.configs[key].form for alias, key in form["configs"].items() if key in manifests.configs}
    if len(known) < len(form["configs"]):
        return
    empty = {"configs": form["configs"], "agent": "", "runtimeConfig": ""}
    fields: list[tuple[Path, Form]] = [((key,), {key: form[key]}) for key in ("runtimeConfig", "agent")]
    for index, file in enumerate(form.get("files", ())):
        content = "data" if "data" in file else "binaryData"
        fields.append((("files", index, content), {"files": [file]}))
    for path, part in fields:
        try:
            render_workload(name, empty | part, lambda key: _config(manifests, key))
        except Rejected as error:
            found = _POSITION.search(str(error))
            message = str(error) + _suggestion(str(error), known)
            yield Problem(path, message, text_line=int(found[1]) if found else None)


def _check_unrendered(form: Form) -> Iterator[Problem]:
    texts: list[tuple[Path, str]] = [(("runtimeConfig",), form["runtimeConfig"])]
    texts += [(("files", index, "data"), file.get("data", "")) for index, file in enumerate(form.get("files", ()))]
    for path, text in texts:
        if found := _LIKE_A_TEMPLATE.search(text):
            why = "looks like a template but is not rendered, because the workload has no 'configs'"
            yield Problem(path, why, WARNING, text.count("\n", 0, found.start()) + 1)


def _suggestion(message: str, known: Form) -> str:
    missing = _MISSING_VARIABLE.search(message)
    return suggestion(missing[1], _variables(known, "")) if missing else ""


def _variables(values: Form, prefix: str) -> Iterator[str]:
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _variables(value, f"{prefix}{key}.")


def _config(manifests: ManifestSet, key: str) -> object:
    return manifests.configs[key].form if key in manifests.configs else MISSING


def render_or_none(name: str, form: Form, manifests: ManifestSet) -> RenderedWorkload | None:
    """The rendered workload; None if that fails, which `check_templates` reports."""
    try:
        return render_workload(name, form, lambda key: _config(manifests, key))
    except Rejected:
        return None


def check_rendered(workload: RenderedWorkload) -> Iterator[Problem]:
    try:
        check_rendered_workload(workload)
    except Rejected as error:
        text = str(error)
        path: Path = ("agent",) if "agent name" in text else ("controlInterfaceAccess",)
        yield Problem(() if text.startswith("Unsupported workload name") else path, text)
