"""Declared objects as Markdown: one section with a table of fields for each object that a root object is made of."""

import re
from collections.abc import Iterator, Mapping

from ankaios.common.model.containers import ListOf, MapOf
from ankaios.common.model.kind import Kind
from ankaios.common.model.objects import Field, Object
from ankaios.common.model.scalars import MAX_UINT32, Boolean, Duration, Integer, Text, Words
from ankaios.common.model.unions import ConfigItem, TextSources, Variants
from ankaios.common.names import NAME_PATTERN
from tools.reference.markdown import code, heading, link, plain, table, words

Named = Object | Variants | ConfigItem | TextSources
HEADER = ("key", "value", "required", "meaning")


def sections(root: Object, elsewhere: Mapping[str, str] | None = None) -> Iterator[str]:
    """The sections of all objects below the root, each once. `elsewhere` has links to those of other pages, by name."""
    known = dict(elsewhere or {})
    waiting: list[Named] = [root]
    while waiting:
        item = waiting.pop(0)
        yield from _section(item, known, is_root=item is root)
        new = {kind.name: kind for kind in _named_parts(item) if kind.name not in known}
        known |= {name: f"#{name}" for name in new}
        waiting = [*new.values(), *waiting]


def _section(item: Named, links: Mapping[str, str], is_root: bool) -> Iterator[str]:
    yield heading(2, "Top level", "top-level") if is_root else heading(2, words(item.name).capitalize(), item.name)
    if isinstance(item, ConfigItem):
        yield plain(item.description)
    elif isinstance(item, TextSources):
        yield "A string, or an object with one of these keys:"
        yield _table(item.sources, links)
    elif isinstance(item, Variants):
        yield _table({item.tag: item.tag_field}, links)
        for word, variant in item.variants.items():
            yield f"With `{item.tag}: {word}` also:"
            yield _table(variant.fields, links)
    else:
        yield _table(item.fields, links)


def _table(fields: Mapping[str, Field], links: Mapping[str, str]) -> str:
    """The column of required fields is left out if there are none."""
    lines = [HEADER, *(_row(name, field, links) for name, field in fields.items())]
    if not any(required for _, _, required, _ in lines[1:]):
        return table(lines[0][:2] + lines[0][3:], [line[:2] + line[3:] for line in lines[1:]])
    return table(HEADER, lines[1:])


def _row(name: str, field: Field, links: Mapping[str, str]) -> tuple[str, str, str, str]:
    required = "**yes**" if field.required and not field.may_be_supplied else ""
    default = "" if field.default is None else f" Default: {code(str(field.default))}."
    return code(name), _value(field.kind, links), required, plain(field.description) + default


def _named_parts(item: Named) -> Iterator[Named]:
    keys = item.known_keys or ()
    for kind in map(item.part, keys):
        while isinstance(kind, ListOf | MapOf):
            kind = kind.element
        if isinstance(kind, Named):
            yield kind


def _value(kind: Kind, links: Mapping[str, str]) -> str:
    match kind:
        case Object() | Variants() | ConfigItem():
            return f"[{words(kind.name)}]({links.get(kind.name, f'#{kind.name}')})"
        case Words():
            return " or ".join(map(code, kind.words))
        case ListOf():
            return f"list of {_plural(_value(kind.element, links))}"
        case MapOf():
            inner = _value(kind.element, links)
            return f"map to {inner}" if " or " in inner else f"map of {_plural(inner)}"
        case TextSources():
            return f"map of [{words(kind.name)}s](#{kind.name})"
        case Integer():
            return (
                f"integer, {kind.minimum} or more"
                if kind.maximum == MAX_UINT32
                else f"{kind.minimum} to {kind.maximum}"
            )
        case Boolean():
            return "boolean"
        case Duration():
            return "duration such as `5s`"
        case Text(pattern=pattern):
            return link("name", "names") if pattern == NAME_PATTERN else "string"
    raise TypeError(f"no text for {kind}")


def _plural(text: str) -> str:
    if text.startswith("map "):
        return f"maps {text.removeprefix('map ')}"
    if text.startswith("["):
        return re.sub("s?]", "s]", text, count=1)
    return text if " or " in text else f"{text}s"
