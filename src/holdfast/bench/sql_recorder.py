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
    _statements: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        event.listen(self.engine, "before_cursor_execute", self._statement)
        event.listen(self.engine, "commit", lambda _: self._statements.append(COMMIT))

    def take(self) -> list[Statement]:
        statements, self._statements = self._statements, []
        return statements

    def _statement(self, *event: Any) -> None:
        _connection, _cursor, text, parameters, _context, many = event
        self._statements.append(Statement(text, parameters, many))


def replay(driver: Any, statements: list[Statement]) -> None:
    """Execute all statements on a connection of the driver, and fetch their rows."""
    cursor = driver.cursor()
    for statement in statements:
        if statement is COMMIT:
            driver.commit()
        elif statement.many:
            cursor.executemany(statement.text, statement.parameters)
        else:
            cursor.execute(statement.text, statement.parameters)
            if cursor.description:
                cursor.fetchall()
    cursor.close()
