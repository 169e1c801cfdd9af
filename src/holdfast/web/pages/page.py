"""What all pages share: the visitor, the frame around every view, and pages that refuse."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import Connection

from holdfast.control.queries.incidents import count_open_alerts
from holdfast.durations import DAY
from holdfast.errors import HoldfastError
from holdfast.web.auth import Caller, visitor
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import ERRORS, STATUS, Code
from holdfast.web.pages import words
from holdfast.web.tokens import Role

# The views in their order: path, name, and the key that leads there after `g`.
VIEWS = (
    ("/", "Fleet", "f"),
    ("/policies", "Policies", "p"),
    ("/evidence", "Evidence", "e"),
    ("/cost", "Cost", "c"),
    ("/plan", "Plan", "d"),
    ("/alerts", "Alerts", "a"),
)
# A page changes with every audit; the browser revalidates static files.
FRESH = {"cache-control": "no-cache"}
# A form sends its origin only to us: without it nobody could sign in.
HEADERS = FRESH | {"referrer-policy": "same-origin"}

_templates = Environment(
    loader=PackageLoader("holdfast.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(words.FILTERS)
_templates.globals.update(views=VIEWS)


@dataclass
class Visit:
    """A caller who looks at a page."""

    context: Context
    caller: Caller
    open_alerts: int = 0

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Begin the transaction in which the page, and the alert count around it, are read."""
        with self.context.read() as connection:
            self.open_alerts = count_open_alerts(connection)
            yield connection

    @property
    def unit(self) -> str:
        """What an interval is counted in."""
        return "day" if self.context.settings.rails.unit == DAY else "unit"

    def show(self, template: str, path: str, **values: Any) -> HTMLResponse:
        """Return a page; `path` is the view that it belongs to."""
        frame = {
            "here": path,
            "now": self.context.clock(),
            "open_alerts": self.open_alerts,
            "caller": self.caller,
            "unit": self.unit,
            "may_operate": self.caller.role.covers(Role.OPERATOR),
            "may_administer": self.caller.role.covers(Role.ADMIN),
        }
        return _render(template, 200, frame | values)


def prepare_pages() -> None:
    """Compile all templates, so that no first visitor waits for it: 30 ms each."""
    for name in _templates.list_templates():
        _templates.get_template(name)


def _visit(context: RequestContext, known: Annotated[Caller, Depends(visitor)]) -> Visit:
    return Visit(context, known)


AsVisitor = Annotated[Visit, Depends(_visit)]


class _PageRoute(APIRoute):
    """A route that refuses by a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except (HoldfastError, RequestValidationError) as error:
                return refuse(*ERRORS.describe(error), _target(request))

        return handle_or_refuse


def page_router() -> APIRouter:
    return APIRouter(route_class=_PageRoute, include_in_schema=False)


def refuse(code: Code, message: str, target: str) -> HTMLResponse:
    """Return a page that says why nothing is shown; signing in there leads to the target."""
    frame = {"here": "", "open_alerts": 0, "caller": None}
    values = {"code": code, "message": message, "target": target}
    return _render("refused.html", STATUS[code], frame | values)


def _target(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _render(template: str, status: int, values: dict[str, Any]) -> HTMLResponse:
    content = _templates.get_template(template).render(values)
    return HTMLResponse(content, status, HEADERS)
