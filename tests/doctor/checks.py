"""Checks of the doctor that tests look for."""

from holdfast.doctor.finding import Check, Grade


def faults(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.grade is Grade.FAULT]
