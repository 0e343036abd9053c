"""Plain data with names: what `dataclasses` offers, at a fraction of its start-up time.

The standard library compiles up to nine methods for each class while it is imported (0.5 ms each, and we have two
hundred); programs on small machines pay that at every start, mostly for classes they never use in that run. Here a
class compiles its `__init__` when its first instance is made and shares everything else. To a type checker it is the
dataclass of the standard library.

Left out, because nobody here needs it: inheritance of fields, `InitVar`, `ClassVar`, `__post_init__`, `kw_only`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any

else:
    from operator import attrgetter

    _MISSING = object()

    class field:  # noqa: N801
        """A default made anew for each instance."""

        __slots__ = ("default_factory",)

        def __init__(self, *, default_factory):
            self.default_factory = default_factory

    def dataclass(cls=None, /, *, frozen=False, slots=False, order=False, eq=True):
        if cls is None:
            return lambda cls: _build(cls, frozen, slots, order, eq)
        return _build(cls, frozen, slots, order, eq)

    def replace(instance, /, **changes):
        """A copy with other values in some fields."""
        for name in instance.__match_args__:
            if name not in changes:
                changes[name] = getattr(instance, name)
        return instance.__class__(**changes)

    def _build(cls, frozen, slots, order, eq):
        names = tuple(cls.__dict__.get("__annotations__", ()))
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        if slots:
            cls = _with_slots(cls, names)
        else:
            for name, default in defaults.items():
                if isinstance(default, field):
                    delattr(cls, name)
        cls.__match_args__ = names
        cls.__field_defaults__ = defaults

        def __init__(self, *values, **named):  # noqa: N807
            cls.__init__ = _compiled_init(cls, names, defaults, frozen, slots)
            cls.__init__(self, *values, **named)

        cls.__init__ = __init__
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        if eq:
            _add_comparison(cls, attrgetter(*names) if names else _nothing, frozen, order)
        if frozen:
            cls.__setattr__ = _refuse_setting
            cls.__delattr__ = _refuse_deleting
        return cls

    def _with_slots(cls, names):
        """The same class once more: slots can only be given when a class is made."""
        left_out = {*names, "__dict__", "__weakref__"}
        namespace = {name: value for name, value in cls.__dict__.items() if name not in left_out}
        namespace["__slots__"] = names
        slotted = type(cls)(cls.__name__, cls.__bases__, namespace)
        slotted.__qualname__ = cls.__qualname__
        return slotted

    def _compiled_init(cls, names, defaults, frozen, slots):
        known = {"_MISSING": _MISSING, "_set": object.__setattr__}
        parameters, lines = [], []
        for name in names:
            default = defaults.get(name, _MISSING)
            value = name
            if isinstance(default, field):
                known[f"_new_{name}"] = default.default_factory
                parameters.append(f"{name}=_MISSING")
                value = f"_new_{name}() if {name} is _MISSING else {name}"
            elif default is _MISSING:
                parameters.append(name)
            else:
                known[f"_default_{name}"] = default
                parameters.append(f"{name}=_default_{name}")
            if not frozen:
                lines.append(f" self.{name} = {value}")
            elif slots:
                known[f"_set_{name}"] = cls.__dict__[name].__set__
                lines.append(f" _set_{name}(self, {value})")
            else:
                lines.append(f" _set(self, {name!r}, {value})")
        exec(f"def __init__({', '.join(('self', *parameters))}):\n" + "\n".join(lines or [" pass"]), known)
        made = known["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    def _add_comparison(cls, key, frozen, order):
        def __eq__(self, other):  # noqa: N807
            if self.__class__ is not other.__class__:
                return NotImplemented
            return key(self) == key(other)

        cls.__eq__ = __eq__
        cls.__hash__ = (lambda self: hash(key(self))) if frozen else None
        if not order:
            return

        def __lt__(self, other):  # noqa: N807
            return key(self) < key(other) if self.__class__ is other.__class__ else NotImplemented

        def __le__(self, other):  # noqa: N807
            return key(self) <= key(other) if self.__class__ is other.__class__ else NotImplemented

        cls.__lt__, cls.__le__ = __lt__, __le__
        cls.__gt__ = lambda self, other: key(other) < key(self) if self.__class__ is other.__class__ else NotImplemented
        cls.__ge__ = (
            lambda self, other: key(other) <= key(self) if self.__class__ is other.__class__ else NotImplemented
        )

    def _nothing(instance):
        return ()

    def _repr(self):
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{self.__class__.__qualname__}({values})"

    def _refuse_setting(self, name, value):
        raise AttributeError(f"cannot assign to field '{name}' of a frozen {self.__class__.__qualname__}")

    def _refuse_deleting(self, name):
        raise AttributeError(f"cannot delete field '{name}' of a frozen {self.__class__.__qualname__}")


def field_names(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]
    return names


def field_defaults(kind: type) -> dict[str, Any]:
    """The default of each field that has one; a `field` if it is made anew each time."""
    defaults: dict[str, Any] = kind.__field_defaults__  # type: ignore[attr-defined]
    return defaults


def as_dict(instance: Any) -> dict[str, Any]:
    """The fields by name; their values stay what they are."""
    return {name: getattr(instance, name) for name in instance.__match_args__}


__all__ = ["as_dict", "dataclass", "field", "field_defaults", "field_names", "replace"]
