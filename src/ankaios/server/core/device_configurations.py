"""What a device configuration means for agents: who discovers its devices, and what is sent to them.

Input: a configuration, tags of agents and configuration items. Output: a decision or a message. Owns nothing.
"""

from collections.abc import Callable, Mapping

from ankaios.common.pb import ank_base_pb2 as base


def discovers(configuration: base.DeviceConfiguration, agent: str, tags: Mapping[str, str]) -> bool:
    """The named agents and those with all the tags; all agents if there is neither."""
    if not configuration.HasField("placement"):
        return True
    wanted, named = configuration.placement.tags.tags, configuration.placement.agents
    if not wanted and not named:
        return True
    return agent in named or (bool(wanted) and all(tags.get(key) == value for key, value in wanted.items()))


def configuration_for_agents(
    configuration: base.DeviceConfiguration, config_of: Callable[[str], object]
) -> base.DeviceConfiguration:
    """Agents do not need broker and placement, and a change of these must not disturb them.

    They have no configuration items, so they get the texts; an item that is no text is left out.
    """
    message = base.DeviceConfiguration()
    message.CopyFrom(configuration)
    if (policy := lost_device_policy(configuration)) != message.onDeviceLost:
        message.onDeviceLost = policy
    properties = message.discoveryHandler.discoveryProperties
    for name, key in properties.configs.items():
        if isinstance(text := config_of(key), str):
            properties.values[name] = text
    properties.configs.clear()
    message.ClearField("broker")
    message.ClearField("placement")
    return message


def lost_device_policy(configuration: base.DeviceConfiguration) -> base.OnDeviceLost:
    """Brokers that may use any device can go elsewhere when they lose theirs, so they are restarted by default."""
    anywhere = configuration.HasField("broker") and configuration.broker.strategy == base.BROKER_PER_CONFIGURATION
    if anywhere and not configuration.HasField("onDeviceLost"):
        return base.ON_DEVICE_LOST_RESTART
    return configuration.onDeviceLost
