"""Loads certificates and the revocation list again when their files change, and on SIGHUP.

Input: the material that is in use, its files, the signal. Output: new material for the middleware, or a log line that
states why the old one stays in use. Owns the material in use.

The files are replaced one after the other, so they are loaded when they have not changed for one interval.
"""

import asyncio
import logging
import signal
from contextlib import suppress

from ankaios.common.config import BadPemFile, PemMaterial, pem_file_stamps, read_pem_again
from ankaios.middleware.server import MiddlewareServer

INTERVAL = 1.0  # seconds

_log = logging.getLogger(__name__)


class CertificateReloader:
    """Runs as a task of the server; without TLS it only ignores the signal."""

    def __init__(self, material: PemMaterial | None, middleware: MiddlewareServer) -> None:
        self._material = material
        self._middleware = middleware
        self._asked = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._asked.set)
        if self._material is None:
            return
        loaded = seen = pem_file_stamps(self._material)
        while True:
            is_asked = await self._wait()
            now = pem_file_stamps(self._material)
            if is_asked or (now != loaded and now == seen):
                loaded = now
                self._load(self._material)
            seen = now

    async def _wait(self) -> bool:
        """Return whether the signal has arrived."""
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL):
                await self._asked.wait()
        is_asked = self._asked.is_set()
        self._asked.clear()
        return is_asked

    def _load(self, current: PemMaterial) -> None:
        """Peers have to show their certificates again if the authority or the revocation list has changed."""
        try:
            material = read_pem_again(current)
            ends = (material.ca, material.crl) != (current.ca, current.crl)
            self._middleware.replace_certificates(material, ends_connections=ends)
        except BadPemFile as fault:
            _log.error("The certificates were not loaded again, the old ones stay in use: %s.", fault.reason)
            return
        self._material = material
        consequence = " Connected peers have to connect again." if ends else ""
        _log.info("The certificates were loaded again.%s", consequence)
