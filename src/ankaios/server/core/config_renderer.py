"""Templates in workloads: from the desired form of a workload and the configs it refers to, to what is to run.

[impl->swdd~server-delegate-template-render-to-external-library~1]
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.common.state_manipulation import MISSING, Form
from ankaios.common.workload import InstanceName

if TYPE_CHECKING:
    from ankaios.common.handlebars.template import Template

# The value of a config key, or MISSING.
ConfigOf = Callable[[str], Any]


class RenderedWorkload(Struct, frozen=True):
    """What is to run, in the form of the effective state, and under which name."""

    instance_name: InstanceName
    form: Form

    @classmethod
    def of(cls, name: str, form: Form) -> "RenderedWorkload":
        return cls(InstanceName.of(name, form["agent"], form["runtimeConfig"]), form)


_CACHED_TEXT_LENGTH = 16 * 1024


@lru_cache(maxsize=2048)
def _compiled(text: str) -> "Template":
    """Many workloads share a text, and a changed config renders texts again that were compiled before."""
    return _compile(text)


def _compile(text: str) -> "Template":
    from ankaios.common.handlebars.template import compile_template  # 0.4 MiB; many clusters have no templates

    return compile_template(text)


def render_workload(name: str, form: Form, config_of: ConfigOf) -> RenderedWorkload:
    """Workloads that refer to no config are taken as they are, even if they contain braces.

    [impl->swdd~config-renderer-renders-workload-configuration~2]
    [impl->swdd~config-renderer-supports-rendering-with-keeping-line-indent~1]
    """
    if "configs" not in form:
        return RenderedWorkload.of(name, form)
    context = {alias: _referenced(key, config_of) for alias, key in form["configs"].items()}
    rendered = {part: value for part, value in form.items() if part != "configs"}
    rendered["runtimeConfig"] = _render(form["runtimeConfig"], context, "runtimeConfig")
    rendered["agent"] = _render(form["agent"], context, "agent")
    if "files" in form:
        rendered["files"] = [_render_file(file, context) for file in form["files"]]
    return RenderedWorkload.of(name, rendered)


def _referenced(key: str, config_of: ConfigOf) -> Any:
    value = config_of(key)
    if value is MISSING:
        raise Rejected(f"Workload references config key '{key}' that does not exist")
    return value


def _render_file(file: Form, context: Form) -> Form:
    content = "data" if "data" in file else "binaryData"
    field = f"files with mount point {file['mountPoint']}"
    return {"mountPoint": file["mountPoint"], content: _render(file[content], context, field)}


def _render(text: str, context: Form, field: str) -> str:
    if "{{" not in text:
        return text
    try:
        template = _compiled(text) if len(text) <= _CACHED_TEXT_LENGTH else _compile(text)
        return template.render(context)
    except Rejected as fault:
        raise Rejected(f"Failed to render field '{field}': '{fault}'") from fault
