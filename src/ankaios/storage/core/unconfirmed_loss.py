"""The entry that states which part of the state is lost, until an operator confirms the loss.

Input: the value of the entry, and what was lost now. Output: the new value. Pure.
"""

from collections.abc import Iterable

from ankaios.storage.state_store import EntryKey, JsonValue

LOSS_KEY = EntryKey("loss", "unconfirmed")


def loss_after(before: JsonValue, found: Iterable[str]) -> JsonValue:
    """Add what was found. A fault that is found again at each start is stated once."""
    known = "" if before is None else before["text"]
    text = "; ".join([*([known] if known else []), *(each for each in found if each not in known)])
    return {"text": text} if text else None
