"""Logs: quiet unless the program has configured them, and without credentials."""

import json
import logging

import pytest
import structlog

from holdfast.control.logging import configure_logs, quiet_logs


@pytest.fixture(autouse=True)
def _defaults() -> None:
    structlog.reset_defaults()


def test_only_warnings_are_logged_and_only_while_it_is_quiet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quiet_logs():
        structlog.get_logger().info("started")
        structlog.get_logger().warning("late", node="far")
    assert not structlog.is_configured()
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line) | {"timestamp": ""} == {
        "event": "late",
        "level": "warning",
        "node": "far",
        "timestamp": "",
    }


def test_a_program_that_has_configured_its_logs_keeps_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(logging.INFO)
    with quiet_logs():
        structlog.get_logger().info("started")
    assert structlog.is_configured()
    structlog.reset_defaults()
    assert '"event": "started"' in capsys.readouterr().err


def test_credentials_in_addresses_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet_logs():
        structlog.get_logger().warning("lost", database="postgresql://ada:secret@host/home")
    logged = capsys.readouterr().err
    assert "secret" not in logged
    assert "postgresql://***@host/home" in logged
