"""What an engine says to its driver, taken down, to be said again to a bare driver."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, event


@dataclass(frozen=True)
class Statement:
    text: str
    parameters: Any
    many: bool


COMMIT = Statement("COMMIT", None, many=False)


@dataclass
class Tape:
    """The statements of an engine since the tape was last taken out, in their order."""

    engine: Engine
    _heard: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        event.listen(self.engine, "before_cursor_execute", self._statement)
        event.listen(self.engine, "commit", lambda _: self._heard.append(COMMIT))

    def take(self) -> list[Statement]:
        heard, self._heard = self._heard, []
        return heard

    def _statement(self, *heard: Any) -> None:
        _connection, _cursor, text, parameters, _context, many = heard
        self._heard.append(Statement(text, parameters, many))


def replay(driver: Any, statements: list[Statement]) -> None:
    """Say it all to a connection of the driver, and fetch what it returns."""
    cursor = driver.cursor()
    for each in statements:
        if each is COMMIT:
            driver.commit()
        elif each.many:
            cursor.executemany(each.text, each.parameters)
        else:
            cursor.execute(each.text, each.parameters)
            if cursor.description:
                cursor.fetchall()
    cursor.close()
