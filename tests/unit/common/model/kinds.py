"""Random values for declared kinds: valid ones, and ones with any fault.

Left out is what Python's validator of JSON schemas permits and the standard or we do not: texts that end with a newline
where a pattern ends, and numbers such as 1.0 as integers.
"""

from typing import Any

from hypothesis import strategies as st

from ankaios.common.model.containers import ListOf, MapOf
from ankaios.common.model.kind import Kind
from ankaios.common.model.objects import Object
from ankaios.common.model.scalars import Boolean, Duration, Integer, Text, Words
from ankaios.common.model.unions import ConfigItem, HealthKind, TextSources, Variants

Values = st.SearchStrategy[Any]

NAMES = st.sampled_from(["a", "web", "x" * 63])
WRONG_NAMES = st.sampled_from(["", "a.b", "x" * 57, "x" * 64])
DURATIONS = st.sampled_from(["0s", "100ms", "5s", "1m", "24h", 0, 10])
WRONG_DURATIONS = st.sampled_from(["", "5", "s", "-1s", "1.5s", "5 s", "99999999999s", -1, 10**6])
TEXTS = st.text("ab{}.*/ ", max_size=6) | st.sampled_from(["v1", "web", "akri.sh/cam", "{{a.b}}", "{{PLACEHOLDER}}"])
JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2**33)
    | st.just(1.5)
    | TEXTS
    | st.lists(st.booleans(), max_size=1)
    | st.dictionaries(NAMES, st.none(), max_size=1)
)


def values(kind: Kind, *, sound: bool) -> Values:
    good = _values(kind, sound)
    return good if sound else st.one_of(*[good] * 12, JUNK)


def _values(kind: Kind, sound: bool) -> Values:
    match kind:
        case Words():
            return st.sampled_from(kind.words)
        case Text():
            return TEXTS
        case Integer():
            return st.integers(1, kind.maximum) if sound else st.integers(0, 2**32)
        case Boolean():
            return st.booleans()
        case Duration():
            return DURATIONS if sound else DURATIONS | WRONG_DURATIONS
        case HealthKind():
            return st.just("image") | _objects(kind, sound)
        case ListOf():
            return st.lists(values(kind.element, sound=sound), max_size=2)
        case MapOf():
            return st.dictionaries(_names(sound), values(kind.element, sound=sound), max_size=2)
        case ConfigItem():
            return st.recursive(TEXTS, lambda inner: _config_items(inner, sound), max_leaves=4)
        case TextSources():
            return st.dictionaries(_names(sound), _text_sources(sound), max_size=2)
        case Variants():
            return st.one_of(*(_variants(kind, word, sound) for word in kind.variants))
        case Object():
            return _objects(kind, sound)
    raise TypeError(f"no values for {kind}")


def _names(sound: bool) -> st.SearchStrategy[str]:
    return NAMES if sound else NAMES | WRONG_NAMES


def _config_items(inner: Values, sound: bool) -> Values:
    item = inner if sound else inner | JUNK
    return st.lists(item, max_size=2) | st.dictionaries(_names(sound), item, max_size=2)


def _text_sources(sound: bool) -> Values:
    config = st.fixed_dictionaries({"config": NAMES if sound else st.one_of(NAMES, WRONG_NAMES, JUNK)})
    file = st.fixed_dictionaries({"file": st.just("/etc/secret") if sound else st.one_of(TEXTS, JUNK)})
    good = st.one_of(TEXTS, config, file)
    return good if sound else st.one_of(good, JUNK)


def _variants(kind: Variants, word: str, sound: bool) -> Values:
    content = values(kind.variants[word], sound=sound)
    tag: Values = st.just(word) if sound else st.one_of(st.sampled_from([word, word, word, "X"]), JUNK)
    tagged = st.builds(lambda tag, rest: rest | {kind.tag: tag} if isinstance(rest, dict) else rest, tag, content)
    return tagged if sound else tagged | content


def _objects(kind: Object, sound: bool) -> Values:
    fields = {name: values(field.kind, sound=sound) for name, field in kind.fields.items()}
    alternatives = {name: fields.pop(name) for name in kind.alternatives} if sound else {}
    required = {name: fields.pop(name) for name in kind.required} if sound else {}
    objects = st.fixed_dictionaries(required, optional=fields)
    if not alternatives:
        return objects
    chosen = st.one_of(*(st.fixed_dictionaries({name: choice}) for name, choice in alternatives.items()))
    return st.builds(lambda rest, choice: rest | choice, objects, chosen)
