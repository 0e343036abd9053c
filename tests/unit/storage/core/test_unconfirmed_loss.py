from ankaios.storage.core.unconfirmed_loss import loss_after


def test_without_a_loss_there_is_no_entry() -> None:
    assert loss_after(None, []) is None


def test_losses_are_collected_until_they_are_confirmed() -> None:
    first = loss_after(None, ["revision 3 is lost", "a workload cannot be used"])
    assert first == {"text": "revision 3 is lost; a workload cannot be used"}
    assert loss_after(first, []) == first
    assert loss_after(first, ["revision 7 is lost"]) == {"text": f"{first['text']}; revision 7 is lost"}


def test_a_fault_that_is_found_at_each_start_is_stated_once() -> None:
    first = loss_after(None, ["revision 3 is lost", "a workload cannot be used"])
    assert loss_after(first, ["a workload cannot be used"]) == first
