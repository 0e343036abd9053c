"""The web application of the dashboard: pages, data, streams and changes.

Input: HTTP requests that `security` does not refuse. Output: static files, JSON, server-sent events. Owns nothing but
the routes; the state is in `LiveCluster`.
"""

import mimetypes
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ankaios import __version__
from ankaios.common.errors import Rejected
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.yaml_text import dump_yaml
from ankaios.dashboard.browser_forms import history_form, manifest_update, message_form, plan_form, record_form
from ankaios.dashboard.browser_hub import TooManyPages, encode_event
from ankaios.dashboard.live_cluster import LiveCluster
from ankaios.dashboard.security import (
    COOKIE,
    RESPONSE_HEADERS,
    AccessRules,
    access_fault,
    change_fault,
    host_fault,
    origin_fault,
    same_text,
)
from ankaios.dashboard.server_client import NotAvailable

MAX_BODY_BYTES = 4 * 1024 * 1024
SHOWN_REVISIONS = 50
LOG_TAIL = 500


class RollbackBody(msgspec.Struct, forbid_unknown_fields=True):
    revision: int


def make_app(live: LiveCluster, rules: AccessRules) -> ASGIApp:
    handlers = DashboardHandlers(live, rules)
    routes = [
        Route("/", handlers.static),
        Route("/static/{name}", handlers.static),
        Route("/api/session", handlers.session),
        Route("/api/stream", handlers.stream),
        Route("/api/workloads/{name}", handlers.workload),
        Route("/api/workloads/{name}/why", handlers.why),
        Route("/api/workloads/{name}/records", handlers.records),
        Route("/api/workloads/{name}/logs", handlers.logs),
        Route("/api/history", handlers.history),
        Route("/api/plan", handlers.plan, methods=["POST"]),
        Route("/api/apply", handlers.apply, methods=["POST"]),
        Route("/api/rollback", handlers.rollback, methods=["POST"]),
    ]
    handlers_of_errors = {404: _not_found, 405: _not_found, NotAvailable: _not_available, Rejected: _rejected}
    return GuardedApp(Starlette(routes=routes, exception_handlers=handlers_of_errors), rules)


class GuardedApp:
    """Refuses requests before they reach the routes, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._refusal(request)

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name != b"cache-control"]
                added = [(name.lower().encode(), value.encode()) for name, value in RESPONSE_HEADERS.items()]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        if refused is not None:
            await refused(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        fault = host_fault(headers.get("host", ""), self._rules)
        if fault is not None:
            return _text(fault, 421)
        given = request.query_params.get("token")
        if request.url.path == "/" and given is not None and same_text(given, self._rules.access_token):
            response = RedirectResponse("/", 303)
            response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=request.url.scheme == "https")
            return response
        fault = access_fault(request.cookies.get(COOKIE, ""), self._rules)
        if fault is not None:
            return _text(fault, 401)
        if request.method not in ("GET", "HEAD"):
            fault = origin_fault(headers) or change_fault(headers, self._rules)
        elif request.url.path.startswith("/api/"):
            fault = origin_fault(headers)
        return _text(fault, 403) if fault is not None else None


class DashboardHandlers:
    def __init__(self, live: LiveCluster, rules: AccessRules) -> None:
        self._live = live
        self._rules = rules
        folder = files("ankaios.dashboard") / "static"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    async def static(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        content = self._files.get(name)
        if content is None:
            return _text("There is no such file.", 404)
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
        return Response(content, media_type=kind)

    async def session(self, request: Request) -> Response:
        return _json(
            {
                "version": __version__,
                "server": self._live.client.url,
                "allowChanges": self._rules.allow_changes,
                "changeToken": self._rules.change_token if self._rules.allow_changes else "",
            }
        )

    async def stream(self, request: Request) -> Response:
        return _events(self._pages_events())

    async def _pages_events(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._live.hub.events():
                yield event
        except TooManyPages:
            yield encode_event("refused", {"text": "Too many pages of this dashboard are open."})

    # --- one workload ---

    async def workload(self, request: Request) -> Response:
        name = request.path_params["name"]
        written, rendered = self._live.cluster.definition(name)
        return _json(
            {
                "written": dump_yaml(written) if written is not None else "",
                "rendered": dump_yaml(rendered) if rendered is not None else "",
                "timeline": self._live.log.timeline(name),
            }
        )

    async def why(self, request: Request) -> Response:
        wanted = base.Request(whyRequest=base.WhyRequest(workload=request.path_params["name"]))
        response = await self._live.client.request(wanted)
        return _data(message_form(response.whyResponse)["causes"])

    async def records(self, request: Request) -> Response:
        wanted = base.Request(recordsRequest=base.RecordsRequest(workloads=[request.path_params["name"]]))
        response = await self._live.client.request(wanted)
        return _data([record_form(record) for record in response.recordsResponse.records])

    async def logs(self, request: Request) -> Response:
        name = request.path_params["name"]
        entry = self._live.cluster.workload(name)
        instances = entry["instances"] if entry is not None else ()
        names = [
            base.WorkloadInstanceName(workloadName=name, agentName=one["agent"], id=one["id"]) for one in instances
        ]
        wanted = base.LogsRequest(workloadNames=names, follow=True, tail=LOG_TAIL)
        return _events(self._log_events(base.Request(logsRequest=wanted)))

    async def _log_events(self, request: base.Request) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._live.client.stream(request)) as responses:
                async for response in responses:
                    if response.HasField("logEntriesResponse"):
                        lines = [
                            {"agent": entry.workloadName.agentName, "text": entry.message}
                            for entry in response.logEntriesResponse.logEntries
                        ]
                        yield encode_event("lines", lines)
                    elif response.HasField("logsStopResponse"):
                        yield encode_event("end", {"text": "The workload has no more output."})
                    elif not response.logsRequestAccepted.workloadNames:
                        yield encode_event("end", {"text": "The workload has no output that can be read now."})
        except NotAvailable as error:
            yield encode_event("end", {"text": str(error)})

    # --- history and changes ---

    async def history(self, request: Request) -> Response:
        wanted = base.Request(historyRequest=base.HistoryRequest(limit=SHOWN_REVISIONS, values=True))
        return _data(history_form((await self._live.client.request(wanted)).historyResponse))

    async def plan(self, request: Request) -> Response:
        wanted = base.Request(planRequest=base.PlanRequest(update=await _update(request)))
        return _data(plan_form((await self._live.client.request(wanted)).planResponse))

    async def apply(self, request: Request) -> Response:
        return await self._change(base.Request(updateStateRequest=await _update(request)))

    async def rollback(self, request: Request) -> Response:
        try:
            revision = msgspec.json.decode(await request.body(), type=RollbackBody).revision
        except msgspec.DecodeError as error:
            raise Rejected(f"The request is not understood: {error}") from error
        return await self._change(base.Request(rollbackRequest=base.RollbackRequest(revision=revision)))

    async def _change(self, wanted: base.Request) -> Response:
        return _data(message_form((await self._live.client.request(wanted)).UpdateStateSuccess))


async def _update(request: Request) -> base.UpdateStateRequest:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise Rejected(f"The manifest is larger than {MAX_BODY_BYTES} bytes.")
    update = manifest_update(body.decode(errors="replace"))
    if not update.updateMask:
        raise Rejected("The manifest contains nothing to apply.")
    return update


def _events(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


def _data(data: Any) -> Response:
    return _json({"data": data})


def _text(text: str, status: int) -> Response:
    return Response(text + "\n", status, media_type="text/plain")


async def _not_found(request: Request, error: Exception) -> Response:
    return _text("There is no such page.", 404)


async def _not_available(request: Request, error: Exception) -> Response:
    """What a server does not offer is no error of the page, so the page gets the fault as a text."""
    return _json({"fault": str(error)})


async def _rejected(request: Request, error: Exception) -> Response:
    return _json({"fault": str(error), "invalid": True})
