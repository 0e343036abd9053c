"""Reads the runtimeConfig and the stored data of `podman-kube` workloads.

Input: texts from manifests and volumes. Output: plain data, the manifest for `podman kube play`, and the listed state.
"""

import json
import logging
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.execution_state import SUCCEEDED_OK, ExecutionState
from ankaios.runtimes.container_config import config_mapping, optional_text, required_text, text_list
from ankaios.runtimes.container_listing import Listing
from ankaios.runtimes.podman.kube_manifest import Target, add_control_interface, add_grants
from ankaios.runtimes.podman.states import METADATA_UNREADABLE, pods_state
from ankaios.runtimes.runtime_connector import Extras, Unsupported

_log = logging.getLogger(__name__)


class KubeConfig(Struct, frozen=True):
    """The runtimeConfig."""

    manifest: str
    general_options: tuple[str, ...] = ()
    play_options: tuple[str, ...] = ()
    down_options: tuple[str, ...] = ()
    control_interface_target: str | None = None

    @classmethod
    def parse(cls, text: str) -> "KubeConfig":
        config = config_mapping(text)
        return cls(
            manifest=required_text(config, "manifest"),
            general_options=text_list(config, "generalOptions"),
            play_options=text_list(config, "playOptions"),
            down_options=text_list(config, "downOptions"),
            control_interface_target=optional_text(config, "controlInterfaceTarget"),
        )


class KubeWorkload(Struct, frozen=True):
    """The data for watching and deleting a workload. `pods` is None if unknown, `manifest` if the config is unreadable.

    [impl->swdd~podman-kube-workload-id~1]
    """

    pods: tuple[str, ...] | None
    manifest: str | None
    down_options: tuple[str, ...] = ()


def read_workload(config: str | None, pods: str | None) -> KubeWorkload:
    """Parse the texts that are stored in the two volumes."""
    known = _read_pods(pods)
    try:
        parsed = KubeConfig.parse(config) if config is not None else None
    except Unsupported:
        parsed = None
    return KubeWorkload(known, parsed.manifest, parsed.down_options) if parsed else KubeWorkload(known, None)


def _read_pods(text: str | None) -> tuple[str, ...] | None:
    try:
        pods = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return tuple(pods) if isinstance(pods, list) and all(isinstance(pod, str) for pod in pods) else None


def listed_state(workload: KubeWorkload, listing: Listing) -> ExecutionState:
    if workload.manifest is None:
        return METADATA_UNREADABLE
    if workload.pods is None:
        return SUCCEEDED_OK
    return pods_state([container.state for container in listing.of_pod(pod)] for pod in workload.pods)


def prepared_manifest(config: KubeConfig, extras: Extras) -> str:
    manifest = config.manifest
    if extras.control_interface:
        target = Target.parse(config.control_interface_target)
        manifest = add_control_interface(manifest, target, extras.control_interface)
    if extras.grants:
        manifest = add_grants(manifest, extras.grants, _block_devices(extras.grants))
    return manifest


def _block_devices(grants: Iterable[DeviceGrant]) -> frozenset[str]:
    found = set()
    for node in (node for grant in grants for node in grant.devices):
        try:
            if stat.S_ISBLK(Path(node.host_path).stat().st_mode):
                found.add(node.host_path)
        except OSError:
            _log.warning("cannot read the type of device '%s'", node.host_path)
    return frozenset(found)
