"""Ledgers for tests, written as people write them: one line of usages for each instance."""

from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotLedger, parse_usage


def a_ledger(configuration: str = "cam", **instances: str) -> SlotLedger:
    """`a_ledger(A="- C:4:node-a")`: instance A with two slots, the second one claimed."""
    ledger = SlotLedger()
    for instance, usages in instances.items():
        texts = ["" if text == "-" else text for text in usages.split()]
        ledger.open(instance, configuration, len(texts))
        for index, text in enumerate(texts):
            if claim := parse_usage(text):
                ledger.apply([SlotChange(Slot(instance, index), claim)])
    return ledger


def ids(advertised: tuple[tuple[str, bool], ...]) -> str:
    return " ".join(id_ for id_, healthy in advertised if healthy)


def snapshot(ledger: SlotLedger) -> dict[str, tuple[str, int, bool, bool, dict[int, Claim]]]:
    """The whole content, in an order that does not depend on history."""
    return {
        name: (it.configuration, it.capacity, it.online, it.gone, dict(sorted(it.claims.items())))
        for name, it in sorted(ledger._devices.items())
    }
