"""The interface of the engine: compile a text once, render it any number of times.

The engine does not depend on workloads and configurations; the server's renderer delegates to it as to an external
library. It follows handlebars-rust 6.4 in strict mode without escaping, as Eclipse Ankaios uses it.

[impl->swdd~server-delegate-template-render-to-external-library~1]
"""

from __future__ import annotations

from collections.abc import Mapping

from ankaios.common.handlebars.nodes import Body
from ankaios.common.handlebars.output import MAX_OUTPUT
from ankaios.common.handlebars.parser import parse_template
from ankaios.common.handlebars.partials import TemplateSource
from ankaios.common.handlebars.renderer import Renderer
from ankaios.common.handlebars.values import Value


class Template:
    """A parsed template. It is immutable and can be rendered any number of times."""

    __slots__ = ("_body", "_source")

    def __init__(self, text: str, body: Body) -> None:
        self._source = TemplateSource("Unnamed template", text)
        self._body = body

    def render(self, context: Mapping[str, Value]) -> str:
        """Render with these values, or raise TemplateRenderError."""
        return Renderer(self._source, dict(context), MAX_OUTPUT).render(self._body)


def compile_template(text: str) -> Template:
    """Parse a template, or raise TemplateSyntaxError."""
    return Template(text, parse_template(text))
