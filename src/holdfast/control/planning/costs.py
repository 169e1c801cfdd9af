"""What audits cost a fleet in a month: normalised gas, gas on the ledger, or money."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from holdfast.durations import DAY
from holdfast.errors import InputError
from holdfast.ledger.price import gas_of_an_audit
from holdfast.model.estimate import Estimate
from holdfast.owner.catalogue import Catalogue
from holdfast.sim.measures import Measures

MONTH = 365 * DAY / 12


class Currency(StrEnum):
    UNITS = "units"  # normalised gas, of one holding
    GAS = "gas"  # on the ledger, of all holdings
    MONEY = "money"

    @property
    def label(self) -> str:
        return "normalised gas a holding" if self is Currency.UNITS else self.value


@dataclass(frozen=True)
class Fleet:
    """How many holdings have how many sectors per block, and their mean size."""

    sectors: Counter[int]
    blocks: int | None = None  # None while it is unknown

    @property
    def holdings(self) -> int:
        return self.sectors.total()

    @property
    def usual_sectors(self) -> int:
        return self.sectors.most_common(1)[0][0]

    def gas_of_an_audit(self, *, batched: bool) -> float:
        parts = (n * gas_of_an_audit(s, batched=batched) for s, n in self.sectors.items())
        return sum(parts) / self.holdings


def fleet_in(catalogue: Catalogue) -> Fleet | None:
    """Return the holdings that have files in them, if there are any."""
    sectors: Counter[int] = Counter()
    blocks = 0
    for record in catalogue.holdings():
        entries = [file.entry(record.sectors) for file in catalogue.files(record.name)]
        if entries:
            sectors[record.sectors] += 1
            blocks += sum(entry.blocks for entry in entries)
    return Fleet(sectors, round(blocks / sectors.total())) if sectors else None


@dataclass(frozen=True)
class Prices:
    """What turns the totals of an episode into monthly costs."""

    months: float  # that an episode lasts
    holdings: int
    gas: float  # of an audit
    money: float | None = None  # for a unit of gas
    audits_per_interval: float = 1.0  # some come early, which is not simulated

    def audits(self, measures: Measures) -> Estimate:
        """Return how many audits of a holding there are in a month."""
        return _times(measures.audits, self.audits_per_interval / self.months)

    def cost(self, measures: Measures, currency: Currency) -> Estimate:
        if currency is Currency.UNITS:
            return _times(measures.gas, self.audits_per_interval / self.months)
        gas = _times(self.audits(measures), self.holdings * self.gas)
        if currency is Currency.GAS:
            return gas
        if self.money is None:
            raise InputError("money needs prices: give --gas-price and --ether-price")
        return _times(gas, self.money)

    @property
    def currencies(self) -> list[Currency]:
        priced = self.money is not None
        return [currency for currency in Currency if currency is not Currency.MONEY or priced]


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)
