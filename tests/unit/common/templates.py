"""Renders templates in one step, for tests."""

from collections.abc import Mapping

from ankaios.common.handlebars.template import compile_template
from ankaios.common.handlebars.values import Value


def render(text: str, context: Mapping[str, Value]) -> str:
    return compile_template(text).render(context)
