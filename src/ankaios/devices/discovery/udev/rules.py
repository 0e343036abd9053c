"""udev rules as Akri defines them: the grammar, and which device matches.

Input: rules of a configuration, devices as plain data. Output: whether a device matches, or `InvalidDetails` with rule
and column. Pure: the devices are read in `tree.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.udev.patterns import Pattern, PatternError, compile_glob, compile_regex

MAX_RULE = 4096

_PLAIN = ("KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVER", "DRIVERS", "TAG", "TAGS", "DEVPATH")
_KEYED = ("ATTR", "ATTRS", "ENV")
_REJECTED = {
    *("ACTION", "NAME", "SYMLINK", "PROGRAM", "RESULT", "GOTO", "LABEL", "GROUP", "OWNER", "MODE", "OPTIONS"),
    *("WAIT_FOR", "CONST", "IMPORT", "RUN", "SECLABEL", "SYSCTL", "TEST"),
}
_PLURALS = {"KERNELS": "KERNEL", "SUBSYSTEMS": "SUBSYSTEM", "DRIVERS": "DRIVER", "TAGS": "TAG", "ATTRS": "ATTR"}

# The fields that Akri passes to libudev's enumeration, which supports globs; all others are regular expressions.
_GLOB_IF_EQUAL = {"KERNEL", "SUBSYSTEM", "TAG", "ATTR", "ENV", "DEVPATH"}
_GLOB_IF_UNEQUAL = {"SUBSYSTEM", "ATTR"}

_FILTER = re.compile(r'([A-Z_]+)(?:\{([^{}"]*)\})?([-+:!=]?=)"([^"]*)"')
_VALUE_CHARACTERS = re.compile(r"[A-Za-z0-9 $._*:?\[\]\-|\\/%{}]*")
_KEY_CHARACTERS = re.compile(r"[A-Za-z0-9 $._*?\[\]\-|\\/]+")


class UdevDevice(Struct, frozen=True):
    """What rules can refer to; `attributes` contains those that the rules name and the device has."""

    devpath: str
    kernel: str
    subsystem: str | None = None
    driver: str | None = None
    devnode: str | None = None
    iommu_group: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    parent: UdevDevice | None = None

    def chain(self) -> Iterator[UdevDevice]:
        """The device and all its parents, nearest first."""
        device: UdevDevice | None = self
        while device is not None:
            yield device
            device = device.parent


class RuleFilter(Struct, frozen=True):
    """One condition; `field` is singular, `plural` means that parents are included."""

    field: str
    key: str
    equal: bool
    plural: bool
    pattern: Pattern
    key_pattern: Pattern | None = None

    def holds(self, device: UdevDevice) -> bool:
        """A missing value makes `!=` true and `==` false."""
        devices = device.chain() if self.plural else (device,)
        return any(self.pattern.covers(value) for one in devices for value in self._values(one)) == self.equal

    def _values(self, device: UdevDevice) -> Iterable[str]:
        match self.field:
            case "KERNEL":
                return (device.kernel,)
            case "DEVPATH":
                return (device.devpath,)
            case "SUBSYSTEM":
                return _present(device.subsystem)
            case "DRIVER":
                return _present(device.driver)
            case "TAG":
                return filter(None, device.properties.get("TAGS", "").split(":"))
            case "ATTR":
                return _present(device.attributes.get(self.key))
            case _:
                return self._properties(device)

    def _properties(self, device: UdevDevice) -> Iterable[str]:
        """libudev's enumeration accepts a pattern as the name of a property too."""
        if self.key_pattern is None:
            return _present(device.properties.get(self.key))
        return (value for name, value in device.properties.items() if self.key_pattern.covers(name))


def _present(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


class UdevRule(Struct, frozen=True):
    """All filters must hold; without filters every device matches."""

    filters: tuple[RuleFilter, ...]

    def matches(self, device: UdevDevice) -> bool:
        return all(one.holds(device) for one in self.filters)


def parse_rules(texts: Iterable[str]) -> tuple[UdevRule, ...]:
    return tuple(_numbered_rule(number, text) for number, text in enumerate(texts, 1))


def matches_any(rules: Iterable[UdevRule], device: UdevDevice) -> bool:
    return any(rule.matches(device) for rule in rules)


def wanted_attributes(rules: Iterable[UdevRule]) -> frozenset[str]:
    """Reading a sysfs attribute can be slow, so only those that some rule names are read."""
    return frozenset(one.key for rule in rules for one in rule.filters if one.field == "ATTR")


class _RuleError(ValueError):
    def __init__(self, column: int, why: str) -> None:
        super().__init__(f"at column {column + 1}: {why}")


def _numbered_rule(number: int, text: str) -> UdevRule:
    try:
        return UdevRule(tuple(_parse_filters(text)))
    except _RuleError as error:
        shown = text if len(text) <= 200 else text[:200] + "..."
        raise InvalidDetails(f"cannot use udev rule {number} '{shown}' {error}") from error


def _parse_filters(text: str) -> Iterator[RuleFilter]:
    if len(text) > MAX_RULE:
        raise _RuleError(MAX_RULE, f"a rule has at most {MAX_RULE} characters; split it")
    at = _skip_blanks(text, 0)
    if at == len(text):
        return
    while True:
        found = _FILTER.match(text, at)
        if found is None:
            raise _RuleError(at, 'expected a filter such as KERNEL=="video[0-9]*", without blanks around the operator')
        yield _checked_filter(found)
        at = _skip_blanks(text, found.end())
        if at == len(text):
            return
        if text[at] != ",":
            raise _RuleError(at, "expected a comma between two filters")
        at = _skip_blanks(text, at + 1)
        if at == len(text):
            raise _RuleError(at, "a filter must follow the comma; remove the comma at the end")


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def _checked_filter(found: re.Match[str]) -> RuleFilter:
    name, key, operator, value = found.groups()
    _check_field(found, name, key)
    if operator not in ("==", "!="):
        raise _RuleError(found.start(3), f"operator '{operator}' assigns, discovery only compares; use '==' or '!='")
    if not _VALUE_CHARACTERS.fullmatch(value):
        raise _RuleError(found.start(4), "the value may contain only letters, digits, blanks and $._*:?[]-|\\/%{}")
    if key is not None:
        _check_key(found, key)
    try:
        return _filter(name, key or "", operator == "==", value)
    except PatternError as error:
        raise _RuleError(found.start(4), str(error)) from error


def _check_field(found: re.Match[str], name: str, key: str | None) -> None:
    if name in _REJECTED:
        raise _RuleError(found.start(), f"'{name}' has no meaning in discovery; remove this filter")
    if name not in _PLAIN and name not in _KEYED:
        raise _RuleError(found.start(), f"'{name}' is not a field; there are {', '.join(_PLAIN + _KEYED)}")
    if name in _PLAIN and key is not None:
        raise _RuleError(found.start(), f"'{name}' takes no key; remove '{{{key}}}'")
    if name in _KEYED and key is None:
        raise _RuleError(found.start(), f"'{name}' needs a key, as in {name}{{name}}")


def _check_key(found: re.Match[str], key: str) -> None:
    if not _KEY_CHARACTERS.fullmatch(key):
        raise _RuleError(found.start(2), "the key must contain only letters, digits, blanks and $._*?[]-|\\/")
    # An attribute is a file below the device; no other file of this machine may be read.
    if ".." in key.split("/") or key.startswith("/"):
        raise _RuleError(
            found.start(2), "the key must name something of the device itself, without '..' and leading '/'"
        )


def _filter(name: str, key: str, equal: bool, value: str) -> RuleFilter:
    plural = name in _PLURALS
    is_glob = name in (_GLOB_IF_EQUAL if equal else _GLOB_IF_UNEQUAL)
    return RuleFilter(
        field=_PLURALS.get(name, name),
        key=key,
        equal=equal,
        plural=plural,
        pattern=compile_glob(value) if is_glob else compile_regex(value),
        key_pattern=compile_glob(key) if name == "ENV" and equal else None,
    )
