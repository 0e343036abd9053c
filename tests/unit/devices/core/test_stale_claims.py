from ankaios.devices.core.stale_claims import StaleClaims


def test_a_claim_is_stale_when_it_was_unused_for_long_enough() -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    claims: StaleClaims[str] = StaleClaims(20)
    assert claims.review(["a", "b"], ["b"], now=0) == []
    assert claims.review(["a", "b"], ["b"], now=19.9) == []
    assert claims.review(["a", "b"], ["b"], now=20) == ["a"]


def test_one_use_restarts_the_time_limit() -> None:
    """[utest->akri~reconciler-frees-unused-slots~1]"""
    claims: StaleClaims[str] = StaleClaims(20)
    claims.review(["a"], [], now=0)
    claims.review(["a"], ["a"], now=15)
    assert claims.review(["a"], [], now=25) == []
    assert claims.review(["a"], [], now=45) == ["a"]


def test_a_claim_that_is_made_again_is_a_new_one() -> None:
    claims: StaleClaims[str] = StaleClaims(20)
    claims.review(["a"], [], now=0)
    claims.review([], [], now=10)
    assert claims.review(["a"], [], now=25) == []
