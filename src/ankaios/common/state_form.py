from ankaios.common.model.state import (
    AGENT_ATTRIBUTES,
    COMPLETE_STATE,
    CONFIG_ITEM,
    DEVICE_CONFIGURATION,
    DEVICE_INSTANCE,
    EXECUTION_STATE,
    NODE_RESOURCE,
    STATE,
    WORKLOAD,
)

complete_state_to_form = COMPLETE_STATE.to_form
complete_state_from_form = COMPLETE_STATE.from_form
state_from_form = STATE.from_form
workload_to_form = WORKLOAD.to_form
fill_workload = WORKLOAD.fill
config_item_to_form = CONFIG_ITEM.to_form
fill_config_item = CONFIG_ITEM.fill
fill_execution_state = EXECUTION_STATE.fill
agent_from_form = AGENT_ATTRIBUTES.from_form
device_configuration_from_form = DEVICE_CONFIGURATION.from_form
device_configuration_to_form = DEVICE_CONFIGURATION.to_form
device_instance_from_form = DEVICE_INSTANCE.from_form
device_instance_to_form = DEVICE_INSTANCE.to_form
node_resource_to_form = NODE_RESOURCE.to_form
