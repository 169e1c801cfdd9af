"""What all pages have in common: who looks, what is around every view, and how a page says no."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import func, select

from holdfast.control.scheduling.guardrails import DAY
from holdfast.errors import HoldfastError
from holdfast.storage.schema import NEVER, alerts
from holdfast.web.auth import Caller, caller
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import STATUS, Code, WebRefusedError
from holdfast.web.pages import words
from holdfast.web.tokens import Role

# The views in their order: path, name, and the key that leads there after `g`.
VIEWS = (
    ("/", "Fleet", "f"),
    ("/rails", "Rails", "r"),
    ("/policies", "Policies", "p"),
    ("/evidence", "Evidence", "e"),
    ("/cost", "Cost", "c"),
    ("/plan", "Plan", "d"),
    ("/alerts", "Alerts", "a"),
)
# What a page shows changes with every audit; what it needs is asked for again, and then unchanged.
FRESH = {"cache-control": "no-cache"}
# A form's origin is told to ourselves alone: without it nobody could sign in.
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


@dataclass(frozen=True)
class Visit:
    """Someone who looks at a page."""

    desk: Context
    caller: Caller

    @property
    def unit(self) -> str:
        """What an interval is counted in."""
        return "day" if self.desk.settings.rails.unit == DAY else "unit"

    def show(self, template: str, path: str, **context: Any) -> HTMLResponse:
        """Return a page; `path` is the view that it belongs to."""
        opened = self.desk.row(select(func.count()).where(alerts.c.ended == NEVER))
        around = {
            "here": path,
            "now": self.desk.clock(),
            "open_alerts": 0 if opened is None else opened[0],
            "caller": self.caller,
            "unit": self.unit,
            "may_operate": self.caller.role.covers(Role.OPERATOR),
            "may_administer": self.caller.role.covers(Role.ADMIN),
        }
        return _written(template, 200, around | context)


def prepare_pages() -> None:
    """Compile all templates, so that nobody who looks first waits for it: 30 ms each."""
    for name in _templates.list_templates():
        _templates.get_template(name)


def _visit(desk: RequestContext, known: Annotated[Caller, Depends(caller)]) -> Visit:
    return Visit(desk, known)


AsVisitor = Annotated[Visit, Depends(_visit)]


class _PageRoute(APIRoute):
    """A route whose refusals are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except WebRefusedError as error:
                return refused(error.code, str(error))
            except RequestValidationError as error:
                first: Any = error.errors()[0]
                return refused(Code.MALFORMED, f"{first['loc'][-1]}: {first['msg']}")
            except HoldfastError as error:
                return refused(Code.STORAGE, str(error))

        return handled


def view() -> APIRouter:
    return APIRouter(route_class=_PageRoute, include_in_schema=False)


def refused(code: Code, message: str) -> HTMLResponse:
    around = {"here": "", "open_alerts": 0, "caller": None}
    return _written("refused.html", STATUS[code], around | {"code": code, "message": message})


def _written(template: str, status: int, context: dict[str, Any]) -> HTMLResponse:
    content = _templates.get_template(template).render(context)
    return HTMLResponse(content, status, HEADERS)
