"""Keeps the standard library from loading what a program needs later or never, where every start counts.

Nothing here changes what modules do, only when they are loaded. To be called before anything else is imported.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType as _Module
else:
    _Module = type(sys)

# Used when a traceback is shown, a callback is inspected or a host in a URL is an address; asyncio, logging and pathlib
# import them in any case: a tenth of the start of an agent.
RARELY_USED = ("inspect", "ipaddress", "textwrap", "tokenize")


class _Later(_Module):
    """Stands for a module and becomes it as soon as something of it is used."""

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        self.__dict__.update(import_module(self.__name__).__dict__)
        return super().__getattribute__(name)


def load_later(*names: str) -> None:
    """Modules, not packages. What is loaded already stays as it is."""
    for name in names:
        sys.modules.setdefault(name, _Later(name))


def load_asyncio_without_tls() -> None:
    """Without TLS transports of its own, that is: our connections do TLS on buffers (`middleware/tls.py`).

    asyncio loads OpenSSL as soon as it is imported, 10 ms and 5 MB also where there are no certificates. But it runs on
    a Python that was built without `ssl` as well, so it is told that there is none. Everybody else can import it.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]


def bring_back_tls() -> None:
    """For who needs a TLS transport of asyncio after all, as a client of cameras that speak https."""
    import importlib
    import ssl
    from asyncio import base_events, selector_events, sslproto

    if vars(sslproto)["ssl"] is None:
        importlib.reload(sslproto)
        for module in (base_events, selector_events):
            vars(module)["ssl"] = ssl
