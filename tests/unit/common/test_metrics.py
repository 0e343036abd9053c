from ankaios.common.metrics import MAX_SERIES, OTHER, Counter, Gauge, Histogram, metrics_of


def test_a_counter_counts_for_each_label() -> None:
    counter = Counter("updates", "Updates.", "result")
    counter.add("accepted")
    counter.add("accepted", amount=2)
    counter.add("rejected")
    assert counter.values == {("accepted",): 3, ("rejected",): 1}


def test_a_counter_without_labels_starts_at_zero() -> None:
    assert Counter("updates", "Updates.").values == {(): 0}


def test_a_histogram_puts_each_observation_into_its_range() -> None:
    histogram = Histogram("seconds", "Seconds.", bounds=(1, 2))
    for value in (0.5, 1, 1.5, 99):
        histogram.observe(value)
    (found,) = histogram.values.values()
    assert found.counts == [2, 1, 1]
    assert found.sum == 102


def test_label_sets_are_bounded() -> None:
    counter = Counter("names", "Names.", "name")
    histogram = Histogram("seconds", "Seconds.", "name")
    for number in range(MAX_SERIES + 10):
        counter.add(str(number))
        histogram.observe(1, str(number))
    assert len(counter.values) == MAX_SERIES + 1
    assert counter.values[OTHER,] == 10
    assert len(histogram.values) == MAX_SERIES + 1


def test_the_metrics_of_an_object_are_found_in_their_order() -> None:
    class Owner:
        def __init__(self) -> None:
            self.first = Gauge("first", "First.")
            self.other = 7
            self.second = Counter("second", "Second.")

    assert [metric.name for metric in metrics_of(Owner())] == ["first", "second"]
