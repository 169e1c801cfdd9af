"""Checks of the doctor that tests look for."""

from holdfast.doctor.finding import Check, Grade


def faults(found: list[Check]) -> list[Check]:
    return [each for each in found if each.grade is Grade.FAULT]
