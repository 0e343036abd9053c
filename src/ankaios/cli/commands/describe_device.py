"""`ank describe device`: slots, users, properties and device nodes of one discovered device."""

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import open_session
from ankaios.cli.terminal.description import Description
from ankaios.cli.terminal.output import CliError
from ankaios.cli.views.device_rows import SLOTS_HEADER, agents_of, slots_of
from ankaios.cli.views.times import utc_second
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.suggestions import did_you_mean


def run(call: CommandCall) -> None:
    name: str = call.values["name"]
    with open_session(call, "Failed to describe device") as session:
        instances = session.complete_state("deviceInstances").deviceInstances.deviceInstances
        if name not in instances:
            raise CliError(f"Device '{name}' does not exist.", did_you_mean("device", name, instances))
        call.output.line(describe_device(name, instances[name]).text(call.output))


def describe_device(name: str, instance: base.DeviceInstance) -> Description:
    slots = slots_of(name, instance)
    used = sum(slot.is_used for slot in slots)
    attributes = instance.attributes
    description = Description()
    description.fact("Device", name)
    description.fact("Configuration", instance.configurationName)
    description.fact("CDI name", instance.cdiName)
    description.fact("Agents", ", ".join(agents_of(instance)))
    description.fact("Shared", "yes" if instance.shared else "no")
    if attributes.HasField("online"):
        description.fact("Online", _online(instance))
    description.fact("Slots", f"{instance.capacity}, {used} used, {max(instance.capacity - used, 0)} free")
    description.table("Slots", SLOTS_HEADER, [slot.cells() for slot in slots])
    description.table("Properties", ("NAME", "VALUE"), sorted(instance.brokerProperties.values.items()))
    nodes = [(spec.containerPath, spec.hostPath, spec.permissions) for spec in attributes.deviceSpecs]
    description.table("Device nodes", ("IN CONTAINER", "ON HOST", "PERMISSIONS"), nodes)
    mounts = [(m.containerPath, m.hostPath, "read-only" if m.readOnly else "read-write") for m in attributes.mounts]
    description.table("Mounts", ("IN CONTAINER", "ON HOST", "ACCESS"), mounts)
    return description


def _online(instance: base.DeviceInstance) -> str:
    if instance.attributes.online:
        return "yes"
    since = f", since {utc_second(instance.offlineSinceMs)}" if instance.HasField("offlineSinceMs") else ""
    return f"no{since}{', lost' if instance.lost else ''}"
