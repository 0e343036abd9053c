"""Handlebars templates: strict, without escaping, with the partial `indent`. Pure functions, no I/O.

`compile_template(text)` returns a `Template`, `template.render(context)` returns the text.
"""

from ankaios.common.handlebars.errors import TemplateRenderError, TemplateSyntaxError
from ankaios.common.handlebars.template import Template, compile_template, render
from ankaios.common.handlebars.values import Value

__all__ = ["Template", "TemplateRenderError", "TemplateSyntaxError", "Value", "compile_template", "render"]
