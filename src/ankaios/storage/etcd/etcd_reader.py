"""Reads all keys of a store from etcd.

Input: the prefix. Output: keys and values. Read in pages that are made smaller if the values are large.
"""

from ankaios.grpc.wire_format import Status
from ankaios.storage.core.etcd_layout import FORMAT, KeySpace
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdRejected
from ankaios.storage.pb.etcd_api_pb2 import RangeRequest, RangeResponse
from ankaios.storage.state_store import StorageFailed

_READ_LIMIT = 10.0  # seconds for one page
_PAGE = 1000


async def read_pairs(client: EtcdClient, keys: KeySpace) -> dict[bytes, bytes]:
    """Return everything below the prefix; the caller leads, so no other server writes."""
    start, end = keys.everything
    pairs: dict[bytes, bytes] = {}
    page, has_more = _PAGE, True
    while has_more:
        response, page = await _read_page(client, RangeRequest(key=start, range_end=end), page)
        pairs.update((each.key, each.value) for each in response.kvs)
        has_more = response.more
        start = response.kvs[-1].key + b"\0" if response.kvs else end
    if pairs.get(keys.format, FORMAT) != FORMAT:
        found = pairs[keys.format].decode(errors="replace")
        raise StorageFailed(
            f"cannot use the state in etcd: it has version '{found}' of the format, and this program supports version "
            f"{FORMAT.decode()}; install a newer ank-server"
        )
    return pairs


async def _read_page(client: EtcdClient, request: RangeRequest, page: int) -> tuple[RangeResponse, int]:
    """Return the response, and the size of the next page."""
    while True:
        request.limit = page
        try:
            return await client.range(request, _READ_LIMIT), page
        except EtcdRejected as rejected:
            if rejected.status is not Status.RESOURCE_EXHAUSTED or page == 1:
                raise
            page = max(page // 4, 1)
