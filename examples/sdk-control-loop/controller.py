"""Keeps three workers running and restarts them after a failure; runs a survey once and deletes it.

It subscribes to the states of its workloads instead of polling them: each event contains what has changed. One of
the workers is made to fail after a second, so that a restart can be seen.
"""

import os

from ankaios_sdk import (
    Ankaios,
    AnkaiosLogLevel,
    AnkaiosResponseError,
    ControlInterface,
    Workload,
    WorkloadState,
    WorkloadStateEnum,
)

WORKERS = ("worker_1", "worker_2", "worker_3")
SURVEY = "survey"
ENDED = (WorkloadStateEnum.FAILED, WorkloadStateEnum.SUCCEEDED)
WORK = 'command: ["/bin/sh", "-c", "echo attempt {attempt} at work; exec sleep 1000000"]'
BROKEN = 'command: ["/bin/sh", "-c", "echo attempt {attempt} breaks; sleep 1; exit 3"]'
ONCE = 'command: ["/bin/sh", "-c", "echo survey done"]'


class Controller:
    """Owns the number of attempts of each worker; everything else it reads from the cluster."""

    def __init__(self, ankaios: Ankaios) -> None:
        self._ankaios = ankaios
        self._attempts = dict.fromkeys(WORKERS, 0)

    def run(self) -> None:
        self.try_what_is_forbidden()
        events = self._ankaios.register_event([f"workloadStates.*.{name}" for name in (*WORKERS, SURVEY)])
        for name in WORKERS:
            self.start(name)
        self.apply(SURVEY, ONCE)
        while True:
            for state in events.get().complete_state.get_workload_states().get_as_list():
                self.react(state)

    def react(self, state: WorkloadState) -> None:
        name, now = state.workload_instance_name.workload_name, state.execution_state
        if now.state not in ENDED:
            return
        if name == SURVEY:
            print("survey is done, deleting it")
            self._ankaios.delete_workload(SURVEY)
        elif name in WORKERS:
            print(f"{name} ended ({now.state}, {now.additional_info}), starting it again")
            self.start(name)

    def start(self, name: str) -> None:
        self._attempts[name] += 1
        attempt = self._attempts[name]
        config = BROKEN if (name, attempt) == ("worker_2", 1) else WORK
        self.apply(name, config.format(attempt=attempt))

    def apply(self, name: str, config: str) -> None:
        workload = (
            Workload.builder()
            .workload_name(name)
            .agent_name(os.environ["AGENT"])
            .runtime("native")
            .runtime_config(config)
            .build()
        )
        self._ankaios.apply_workload(workload)

    def try_what_is_forbidden(self) -> None:
        try:
            self._ankaios.delete_workload("controller")
        except AnkaiosResponseError as refusal:
            print(f"may not delete itself, as it should be: {refusal}")


def main() -> None:
    # If the agent may not mount, this variable has the path of the FIFOs. In containers it is the default of the SDK.
    if folder := os.environ.get("ANKAIOS_CONTROL_INTERFACE"):
        ControlInterface.ANKAIOS_CONTROL_INTERFACE_BASE_PATH = folder
    with Ankaios(log_level=AnkaiosLogLevel.WARN) as ankaios:
        Controller(ankaios).run()


if __name__ == "__main__":
    main()
