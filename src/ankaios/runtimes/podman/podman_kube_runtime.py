"""Runs workloads that are Kubernetes manifests, with `podman kube`.

Input: workloads. Output: their states and logs. The id of a workload is its instance name. Its data (manifest, options,
pods) is stored in the labels of two volumes, so that it outlives the agent, and cached in this module.
[impl->swdd~agent-supports-podman-kube-runtime~1]
"""

import json
import logging
from collections.abc import AsyncIterator, Sequence

from ankaios.common.health import ExecCheck
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.check_command import check_target_of
from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.container_config import log_arguments
from ankaios.runtimes.container_listing import Container
from ankaios.runtimes.container_runtime import LISTED_BEFORE
from ankaios.runtimes.generic_polling_state_checker import StateCheckers
from ankaios.runtimes.podman.kube_manifest import exits_are_final, is_pod_of
from ankaios.runtimes.podman.kube_workload import (
    KubeConfig,
    KubeWorkload,
    listed_state,
    prepared_manifest,
    read_workload,
)
from ankaios.runtimes.podman.merged_logs import LogSource, merged_logs
from ankaios.runtimes.podman.podman_runtime import Podman
from ankaios.runtimes.podman.podman_state_getter import PodmanKubeStateGetter
from ankaios.runtimes.runtime_connector import (
    CheckTarget,
    CommandResult,
    Existing,
    Extras,
    LogOptions,
    RuntimeFailed,
    StateChecker,
    StateSink,
    Unsupported,
    WorkloadId,
)

CONFIG_SUFFIX = ".config"
PODS_SUFFIX = ".pods"

_log = logging.getLogger(__name__)


class PodmanKubeRuntime:
    """[impl->swdd~podman-kube-implements-runtime-connector~1]"""

    name = "podman-kube"  # [impl->swdd~podman-kube-name-returns-podman-kube~1]

    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._cli = podman.cli
        self._checkers = StateCheckers()
        self._workloads: dict[WorkloadId, KubeWorkload] = {}
        self._getters: dict[WorkloadId, PodmanKubeStateGetter] = {}
        self._checked: dict[tuple[WorkloadId, str | None], str] = {}  # container of the last check
        self._others: dict[WorkloadId, set[str]] = {}  # pods that existed before a start that is not finished

    # -- finding

    async def existing_workloads(self, agent: str) -> list[Existing]:
        """The filter also matches agents whose names end with the name of this agent; their workloads are skipped.

        The containers are listed first, because the other podman connector waits for the same listing.
        [impl->swdd~podman-kube-list-existing-workloads-using-config-volumes~1]
        """
        listing = await self._cli.listings.get(max_age=LISTED_BEFORE)
        texts = await self._cli.stored(f".{agent}.(config|pods)$")
        names = [
            InstanceName.parse(volume.removesuffix(CONFIG_SUFFIX)) for volume in texts if volume.endswith(CONFIG_SUFFIX)
        ]
        ours = [name for name in names if name is not None and name.agent == agent]
        for name in ours:
            self._remember(name, texts)
        return [Existing(name, listed_state(self._workloads[str(name)], listing.get())) for name in ours]

    def _remember(self, name: InstanceName, texts: dict[str, str | None]) -> None:
        config, pods = texts.get(f"{name}{CONFIG_SUFFIX}"), texts.get(f"{name}{PODS_SUFFIX}")
        self._workloads.setdefault(str(name), read_workload(config, pods))

    async def workload_id(self, name: InstanceName) -> WorkloadId | None:
        """[impl->swdd~podman-kube-get-workload-id-uses-volumes~1]"""
        return str(name) if await self._known(str(name)) else None

    async def _known(self, workload: WorkloadId) -> KubeWorkload | None:
        """Return the data of the workload from the cache, or else from its volumes."""
        if workload not in self._workloads:
            texts = await self._cli.stored(f"^{workload}.(config|pods)$")
            name = InstanceName.parse(workload)
            if name is None or f"{workload}{CONFIG_SUFFIX}" not in texts:
                return None
            self._remember(name, texts)
        return self._workloads[workload]

    # -- creating

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> WorkloadId:
        """[impl->swdd~podman-kube-create-workload-apply-manifest~1]
        [impl->swdd~podman-kube-create-workload-returns-workload-id~1]
        """
        if spec.has_files:
            raise Unsupported("Workload files are not supported for podman-kube runtime. Use ConfigMaps instead.")
        config = KubeConfig.parse(spec.runtime_config)
        manifest = prepared_manifest(config, extras)
        workload = str(spec.instance_name)
        if extras.reuse:
            # Podman rejects `kube play` while the ended pods exist.
            await self.delete_workload(extras.reuse)
        # [impl->swdd~podman-kube-create-workload-creates-config-volume~1]
        await self._store(workload + CONFIG_SUFFIX, spec.runtime_config)
        pods = await self._play(workload, config, manifest)
        # [impl->swdd~podman-kube-create-workload-creates-pods-volume~1]
        await self._store(workload + PODS_SUFFIX, json.dumps(pods, separators=(",", ":")))
        self._workloads[workload] = KubeWorkload(tuple(pods), manifest, config.down_options)
        return workload

    async def _store(self, volume: str, text: str) -> None:
        """Continue after an error: the workload runs, but a restarted agent cannot find it.

        [impl->swdd~podman-kube-create-continues-if-cannot-create-volume~1]
        """
        try:
            await self._cli.store(volume, text)
        except RuntimeFailed as fault:
            _log.warning("cannot store volume '%s': %s", volume, fault)

    async def _play(self, workload: WorkloadId, config: KubeConfig, manifest: str) -> list[str]:
        """Record the existing pods first, so that the pods of a failed start can be identified and removed."""
        if workload not in self._others:
            self._others[workload] = (await self._cli.listings.get()).get().pods()
        try:
            pods = await self._cli.kube_play(config.general_options, config.play_options, manifest)
        except RuntimeFailed:
            await self._clean_up(workload, manifest)
            raise
        del self._others[workload]
        return pods

    async def _clean_up(self, workload: WorkloadId, manifest: str) -> None:
        """Remove the pods of a failed start, which block every further attempt. Pods that existed before are kept.

        If the clean-up fails, the next attempt repeats it; the recorded pods are kept until then.
        """
        others = self._others[workload]
        try:
            pods = await self._cli.pods()
            left = [pod for pod, name in pods.items() if pod not in others and is_pod_of(name, manifest)]
            if left:
                await self._cli.remove_pods(left)
        except RuntimeFailed as fault:
            _log.warning("cannot clean up after the failed start of '%s': %s", workload, fault)
            return
        await self._forget(workload)

    # -- watching

    def start_checker(self, spec: WorkloadSpec, workload: WorkloadId, sink: StateSink) -> StateChecker:
        """[impl->swdd~podman-kube-create-starts-podman-kube-state-getter~1]"""
        known = self._workloads.get(workload)
        final = known is not None and known.manifest is not None and exits_are_final(known.manifest)
        getter = PodmanKubeStateGetter(self._cli, self._podman.watch, lambda: self._find_pods(workload), final)
        self._getters[workload] = getter
        self._podman.resync.begin()
        return self._checkers.start(spec.instance_name, getter, sink)

    async def _find_pods(self, workload: WorkloadId) -> tuple[str, ...] | None:
        known = await self._known(workload)
        if known is None or known.manifest is None:
            raise RuntimeFailed(f"cannot find the data of '{workload}'")
        return known.pods

    # -- deleting

    async def delete_workload(self, workload: WorkloadId) -> None:
        """[impl->swdd~podman-kube-delete-workload-downs-manifest-file~1]
        [impl->swdd~podman-kube-delete-removes-volumes~1]
        """
        known = await self._known(workload)
        if known is None:
            return
        watched = self._getters[workload].containers() if workload in self._getters else []
        for container in watched:
            self._podman.watch.suspend_reports(container)
        try:
            await self._down(known)
        except RuntimeFailed:
            for container in watched:
                self._podman.watch.resume_reports(container)
            raise
        await self._forget(workload)

    async def _down(self, known: KubeWorkload) -> None:
        """`kube down` fails if a pod is already removed; then the remaining pods are removed by id."""
        try:
            if known.manifest is not None:
                await self._cli.kube_down(known.down_options, known.manifest)
            elif known.pods:
                await self._cli.remove_pods(known.pods)
        except CommandFailed as fault:
            if known.pods:
                await self._cli.remove_pods(known.pods)
            elif "no such pod" not in fault.why:
                raise

    async def _forget(self, workload: WorkloadId) -> None:
        for suffix in (PODS_SUFFIX, CONFIG_SUFFIX):
            if not await self._cli.forget(workload + suffix):
                _log.info("volume '%s%s' is not removed", workload, suffix)
        self._workloads.pop(workload, None)
        self._getters.pop(workload, None)
        self._others.pop(workload, None)
        for key in [key for key in self._checked if key[0] == workload]:
            del self._checked[key]

    # -- health checks

    async def check_target(self, workload: WorkloadId, container: str | None = None) -> CheckTarget:
        """Without a container name, return any running container: all containers of a pod share one network."""
        found = self._checked.get((workload, container))
        if found is None or not self._podman.watch.pid_of(found):
            running = [each for each in await self._containers(workload, container) if each.pid]
            if not running:
                raise RuntimeFailed(f"no container '{container}' runs" if container else "no container runs")
            found = self._checked[workload, container] = running[0].id
        return check_target_of(await self._podman.pid_of(found))

    async def run_check(
        self, workload: WorkloadId, command: Sequence[str], limit: float, container: str | None = None
    ) -> CommandResult:
        named = await self._containers(workload, container)
        if len(named) != 1:
            names = ", ".join(sorted(name for each in await self._containers(workload) for name in _kube_names(each)))
            raise RuntimeFailed(f"name one of its containers as `container`: {names}")
        return await self._cli.run_check(named[0].id, command, limit)

    async def image_check(self, workload: WorkloadId) -> ExecCheck | None:
        raise Unsupported("the HEALTHCHECK of an image cannot be used with podman-kube, declare a check")

    async def _containers(self, workload: WorkloadId, name: str | None = None) -> list[Container]:
        """Return the containers with the given name, by default all of them."""
        known = await self._known(workload)
        listing = (await self._cli.listings.get()).get()
        pods = known.pods if known and known.pods else ()
        found = [each for pod in pods for each in listing.of_pod(pod) if not each.infra]
        return [each for each in found if name is None or name in _kube_names(each)]

    def processes(self, workload: WorkloadId) -> list[int]:
        getter = self._getters.get(workload)
        return self._podman.watch.processes_of(getter.containers()) if getter is not None else []

    # -- logs

    async def logs(self, workload: WorkloadId, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield whole lines of all containers of all pods, prefixed with the container if there are several."""
        sources = [
            LogSource(each.names[0] if each.names else each.id[:12], self._cli.logs(log_arguments(each.id, options)))
            for each in await self._containers(workload)
        ]
        async for piece in merged_logs(sources):
            yield piece

    async def was_out_of_memory(self, workload: WorkloadId) -> bool:
        for container in await self._containers(workload):
            if await self._cli.was_out_of_memory(container.id):
                return True
        return False

    async def close(self) -> None:
        self._checkers.close()
        await self._podman.close()


def _kube_names(container: Container) -> list[str]:
    """Return the possible names `<pod>/<container>`: podman joins both names with a hyphen."""
    return [f"{name[:at]}/{name[at + 1 :]}" for name in container.names for at, sign in enumerate(name) if sign == "-"]
