"""Handlebars templates: strict, without escaping, with the partial `indent`. Pure functions, no I/O.

`template` is the interface: `compile_template(text)` returns a `Template`, `template.render(context)` the text.
"""
