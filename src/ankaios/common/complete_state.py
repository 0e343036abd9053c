"""Strict reading of a desired state: from anything a manifest may hold to the form in which the server keeps it.

In comes what a YAML or JSON text says, or a form with parts set and removed by masks. Out goes a form in which every
required field is there, every value has its type, defaults are filled in, white space around `runtimeConfig` is gone
and empty collections are left out; or `Malformed`, which says what is wrong and where. Unknown keys are ignored.

[impl->swdd~common-object-representation~1]
"""

from collections.abc import Callable
from typing import Any, Final

from ankaios.common.errors import Rejected

Form = dict[str, Any]
Read = Callable[[Any, str], Any]

API_VERSION: Final = "v1"
DEPRECATED_API_VERSION: Final = "v0.1"
EMPTY_STATE: Final[Form] = {"apiVersion": API_VERSION, "workloads": {}}
# What protobuf can carry: each level of a config item takes three of its hundred levels.
MAX_CONFIG_DEPTH: Final = 29

RESTART_POLICIES: Final = ("NEVER", "ON_FAILURE", "ALWAYS")
ADD_CONDITIONS: Final = ("ADD_COND_RUNNING", "ADD_COND_SUCCEEDED", "ADD_COND_FAILED")
OPERATIONS: Final = ("Nothing", "Read", "Write", "ReadWrite")
RULE_TYPES: Final = ("StateRule", "LogRule")
DISTINCT: Final = ("required", "preferred")
ON_DEVICE_LOST: Final = ("keep", "stop", "restart")
BROKER_STRATEGIES: Final = ("perNode", "perDevice", "perConfiguration")


class Malformed(Rejected):
    """`reason` is the bare fault, `str()` says where it is, too."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


# --- kinds of values --------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    match value:
        case None:
            return "unit value"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case str():
            return f'string "{value}"'
        case list():
            return "sequence"
    return "map"


def _wrong(value: Any, path: str, expected: str) -> Malformed:
    return Malformed(path, f"invalid type: {_kind(value)}, expected {expected}")


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, path, "a string")
    return value


def _scalar_text(value: Any, path: str) -> str:
    """Any scalar as its text; a blank is the empty text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise _wrong(value, path, "a string")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _trimmed(value: Any, path: str) -> str:
    return _scalar_text(value, path).strip()


def _number(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, path, "a whole number")
    if not 0 <= value < 2**32:
        raise Malformed(path, f"invalid value: integer `{value}`, expected a number from 0 to {2**32 - 1}")
    return int(value)


def _map(value: Any, path: str) -> Form:
    """A blank is an empty map; keys are texts."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(value, path, "a map")
    for key in value:
        if not isinstance(key, str):
            raise _wrong(key, path, "a string as key")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(value, path, "a sequence")
    return value


def _map_of(read: Read) -> Read:
    return lambda value, path: {key: read(item, f"{path}.{key}") for key, item in _map(value, path).items()}


def _list_of(read: Read) -> Read:
    return lambda value, path: [read(item, f"{path}[{place}]") for place, item in enumerate(_list(value, path))]


def _word_of(words: tuple[str, ...]) -> Read:
    def read(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise _wrong(value, path, "a string")
        if value not in words:
            listed = ", ".join(f"`{word}`" for word in words)
            raise Malformed(path, f"unknown variant `{value}`, expected one of {listed}")
        return value

    return read


def _required(form: Form, key: str, path: str) -> Any:
    if key not in form:
        raise Malformed(path, f"missing field `{key}`")
    return form[key]


def _fill(form: Form, value: Form, path: str, optional: dict[str, Read]) -> Form:
    """Take over the optional parts that are there and not empty."""
    for key, read in optional.items():
        if key in value and value[key] is not None and (part := read(value[key], f"{path}.{key}")) not in ({}, []):
            form[key] = part
    return form


# --- the desired state ------------------------------------------------------------------------------------------------


def parse_state(value: Any) -> Form:
    """A whole desired state, as in a manifest."""
    form = _map(value, "")
    state: Form = {"apiVersion": _scalar_text(_required(form, "apiVersion", ""), "apiVersion")}
    state["workloads"] = _map_of(parse_workload)(form.get("workloads"), "workloads")
    return _fill(
        state,
        form,
        "",
        {
            "configs": _map_of(parse_config_item),
            "deviceConfigurations": _map_of(parse_device_configuration),
        },
    )


def _texts(value: Any, path: str) -> Form:
    """Most maps hold nothing but texts; only if one does not, the place is looked for."""
    if isinstance(value, dict) and all(type(key) is str is type(text) for key, text in value.items()):
        return value
    return {key: _text(item, f"{path}.{key}") for key, item in _map(value, path).items()}


def parse_workload(value: Any, path: str) -> Form:
    given = _map(value, path)
    # Who leaves the choice of the agent to the server need not name one.
    agent = "" if given.get("placement") is not None and given.get("agent") is None else _required(given, "agent", path)
    form: Form = {"agent": _scalar_text(agent, f"{path}.agent")}
    policy = given.get("restartPolicy")
    form["restartPolicy"] = "NEVER" if policy is None else _policy(policy, f"{path}.restartPolicy")
    _fill(form, given, path, _BEFORE_RUNTIME)
    form["runtime"] = _scalar_text(_required(given, "runtime", path), f"{path}.runtime")
    form["runtimeConfig"] = _trimmed(_required(given, "runtimeConfig", path), f"{path}.runtimeConfig")
    _fill(form, given, path, _AFTER_RUNTIME)
    if given.get("placement") is not None:
        # Also an empty one says something: any agent will do.
        form["placement"] = _placement(given["placement"], f"{path}.placement")
    return form


_policy = _word_of(RESTART_POLICIES)


def _access(value: Any, path: str) -> Form:
    return _fill({}, _map(value, path), path, {"allowRules": _list_of(_rule), "denyRules": _list_of(_rule)})


def _rule(value: Any, path: str) -> Form:
    form = _map(value, path)
    kind = _word_of(RULE_TYPES)(_required(form, "type", path), f"{path}.type")
    if kind == "LogRule":
        return {"type": kind, "workloadNames": _texts_list(_required(form, "workloadNames", path), path)}
    operation = _word_of(OPERATIONS)(_required(form, "operation", path), f"{path}.operation")
    # The singular is the word of manifests of version v0.1.
    masks = form["filterMask"] if "filterMask" in form else _required(form, "filterMasks", path)
    return {"type": kind, "operation": operation, "filterMasks": _texts_list(masks, path)}


_texts_list = _list_of(_text)


def _file(value: Any, path: str) -> Form:
    form = _map(value, path)
    file: Form = {"mountPoint": _text(_required(form, "mountPoint", path), f"{path}.mountPoint")}
    for content in ("data", "binaryData"):
        if content in form:
            file[content] = _text(form[content], f"{path}.{content}")
    if len(file) != 2:
        raise Malformed(path, "expected one of `data` and `binaryData`")
    return file


def _resource(value: Any, path: str) -> Form:
    form = _map(value, path)
    request: Form = {
        "name": _text(_required(form, "name", path), f"{path}.name"),
        "quantity": _number(form.get("quantity", 1), f"{path}.quantity"),
    }
    return _fill(request, form, path, {"container": _text})


def _placement(value: Any, path: str) -> Form:
    return _fill({}, _map(value, path), path, {"tags": _texts})


_BEFORE_RUNTIME: dict[str, Read] = {"dependencies": _map_of(_word_of(ADD_CONDITIONS)), "tags": _texts}
_AFTER_RUNTIME: dict[str, Read] = {
    "controlInterfaceAccess": _access,
    "configs": _texts,
    "files": _list_of(_file),
    "resources": _list_of(_resource),
}


def parse_config_item(value: Any, path: str, depth: int = 1) -> Any:
    if depth > MAX_CONFIG_DEPTH:
        raise Malformed(path, f"config items may be nested {MAX_CONFIG_DEPTH} deep at most")
    if isinstance(value, list):
        return [parse_config_item(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: parse_config_item(item, f"{path}.{key}", depth + 1) for key, item in _map(value, path).items()}
    if not isinstance(value, str):
        raise _wrong(value, path, "a string, a sequence or a map")
    return value


def parse_device_configuration(value: Any, path: str) -> Form:
    given = _map(value, path)
    handler = _map(_required(given, "discoveryHandler", path), f"{path}.discoveryHandler")
    form: Form = {"discoveryHandler": _handler(handler, f"{path}.discoveryHandler")}
    return _fill(form, given, path, _DEVICE_PARTS)


def _handler(value: Form, path: str) -> Form:
    form: Form = {"name": _text(_required(value, "name", path), f"{path}.name")}
    return _fill(form, value, path, {"discoveryDetails": _text, "discoveryProperties": _texts})


def _broker(value: Any, path: str) -> Form:
    given = _map(value, path)
    form: Form = {
        "strategy": _word_of(BROKER_STRATEGIES)(_required(given, "strategy", path), f"{path}.strategy"),
        "workload": _broker_workload(_required(given, "workload", path), f"{path}.workload"),
    }
    return _fill(form, given, path, {"replicas": _number, "quantity": _number})


def _broker_workload(value: Any, path: str) -> Form:
    """The server chooses where a broker runs, so the template need not name an agent."""
    given = _map(value, path)
    form = parse_workload({"agent": "", **given}, path)
    if "agent" not in given:
        del form["agent"]
    return form


def _device_placement(value: Any, path: str) -> Form:
    return _fill({}, _map(value, path), path, {"agents": _texts_list, "tags": _texts})


_DEVICE_PARTS: dict[str, Read] = {
    "capacity": _number,
    "brokerProperties": _texts,
    "broker": _broker,
    "placement": _device_placement,
    "distinct": _word_of(DISTINCT),
    "offlineGraceSeconds": _number,
    "onDeviceLost": _word_of(ON_DEVICE_LOST),
}
