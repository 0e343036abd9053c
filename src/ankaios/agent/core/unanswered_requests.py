"""The requests of one workload that the server has not answered yet. Pure.

Input: forwarded requests, responses, the time. Output: whether a further request may be forwarded. Owns the list.

Without a limit, one workload could fill the connection of its agent with requests, and delay the requests and states of
all other workloads.
"""

MOST_UNANSWERED = 64
LONGEST_WAIT = 5.0  # seconds; some requests are never answered


class UnansweredRequests:
    def __init__(self) -> None:
        self._requests: list[tuple[str, float]] = []

    def add(self, request_id: str, now: float) -> None:
        self._requests.append((request_id, now))

    def answered(self, request_id: str) -> bool:
        """Return whether a request with this id was unanswered."""
        for at, (waiting, _) in enumerate(self._requests):
            if waiting == request_id:
                del self._requests[at]
                return True
        return False

    def is_full(self, now: float) -> bool:
        if len(self._requests) < MOST_UNANSWERED:
            return False
        self._requests = [request for request in self._requests if now - request[1] < LONGEST_WAIT]
        return len(self._requests) >= MOST_UNANSWERED
