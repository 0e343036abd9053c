"""The one list of what a simulation replaces, and why. Everything else is the code that runs in production.

`docs/simulation.md` shows this list.
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
        "pings of idle connections",
        "not sent while the peer would answer; the timers start again when a fault affects the path",
        "they were most of the work of a long simulation; intervals and limits are the real ones",
    ),
    Replacement(
        "intervals of background traffic",
        "load reports every 60 s instead of 2 s, announcements of servers every 30 s instead of 2 s",
        "idle hours take little time; no decision depends on their length",
    ),
    Replacement(
        "writes to a full disk",
        "`SimulatedDisks`: `os.write` and commits of SQLite fail with the errors of a full disk",
        "full disks on command; files and databases are real ones in memory",
    ),
    Replacement(
        "power cuts of disks",
        "files that were not synchronized are truncated, and half a transaction is appended to the log of SQLite",
        "torn and lost writes; SQLite recovers with its real code, because databases are copied to new files",
    ),
    Replacement(
        "load and memory of the machine",
        "constant values",
        "they would differ between two runs of a seed",
    ),
    Replacement(
        "garbage collection by server and agent",
        "once, at the end of a simulation",
        "many programs share one process",
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
