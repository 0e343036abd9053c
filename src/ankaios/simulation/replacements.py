"""The one list of what a simulation replaces, and why. Everything else is the code that runs in production.

`docs/reference/simulation.md` shows this list.
"""

from msgspec import Struct


class Replacement(Struct, frozen=True):
    part: str
    by: str
    reason: str


REPLACEMENTS = (
    Replacement(
        "the event loop's clock and selector",
        "`VirtualTimeLoop`: the clock is set to the next timer when nothing is ready",
        "hours of virtual time take seconds, and the order of events depends on the seed alone",
    ),
    Replacement(
        "TCP connections",
        "`SimulatedNetwork`: streams of bytes with delays, cuts and partitions; gRPC, HTTP/2 and keep-alive are real",
        "faults of the network on command; no ports of the machine",
    ),
    Replacement(
        "the end of a process",
        "`SimulatedProcess.kill`: none of its tasks, timers and callbacks runs again",
        "many processes in one; no cleanup code runs, as with `kill -9`",
    ),
    Replacement("threads", "called at once, in the event loop", "the order of events must not depend on the machine"),
    Replacement(
        "`time`, random bytes and UUIDs of the standard library",
        "the virtual clock and a generator with the seed",
        "two runs of a seed are the same",
    ),
    Replacement(
        "etcd",
        "`SimulatedEtcd`: the calls that the product uses, on the real gRPC server; one store stands for Raft",
        "members that fail on command; the client, the store and the election are real",
    ),
    Replacement(
        "podman and other runtimes",
        "`SimulatedRuntime`: containers that are slow, fail, hang, die or report wrong states",
        "no containers are needed; the contract of runtime connectors has its own tests with real ones",
    ),
    Replacement(
        "discovery of devices",
        "`SimulatedHandler`; the device manager, the ledgers and the claim files are real",
        "devices that are unplugged on command",
    ),
    Replacement(
        "device plugins of other programs, the kubelet interface and mutating hooks",
        "left out",
        "they are other processes; integration and system tests cover them",
    ),
    Replacement(
        "locks of files",
        "always granted",
        "the locks of a killed process would stay, and each simulated host has its own folder",
    ),
    Replacement(
        "signals, systemd notification and `gc.freeze`",
        "ignored",
        "they concern the one real process",
    ),
)
