"""Costs a month follow from what an episode takes, the fleet and the prices."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.control.points import measured

from holdfast.control.costs import Currency, Fleet, Prices, fleet_in
from holdfast.errors import InputError
from holdfast.ledger.price import Settlement, gas_of_an_audit
from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord, Intent

PRICES = Prices(months=12, holdings=10, gas=100_000, money=2e-5)


def test_each_currency_counts_what_it_is_spent_on() -> None:
    year = measured(gas=6.0, audits=36.0)
    assert PRICES.cost(year, Currency.UNITS).value == pytest.approx(0.5)
    assert PRICES.cost(year, Currency.GAS).value == pytest.approx(3 * 10 * 100_000)
    assert PRICES.cost(year, Currency.MONEY).value == pytest.approx(60)
    for currency in PRICES.currencies:
        cost = PRICES.cost(year, currency)
        assert cost.low < cost.value < cost.high


def test_without_a_price_there_is_no_money() -> None:
    free = Prices(months=12, holdings=10, gas=100_000)
    assert free.currencies == [Currency.UNITS, Currency.GAS]
    with pytest.raises(InputError, match="--gas-price and --ether-price"):
        free.cost(measured(), Currency.MONEY)


def test_an_audit_is_cheaper_in_a_batch_and_cheapest_by_a_verdict() -> None:
    for sectors in (1, 16, 128):
        single, batch, verdict = (gas_of_an_audit(sectors, each) for each in Settlement)
        assert single > batch > verdict
    with pytest.raises(InputError, match="no contract for 5 sectors a block, only for 1, 4, 16"):
        gas_of_an_audit(5, Settlement.SINGLE)


def test_a_fleet_is_read_from_the_catalogue(tmp_path: Path) -> None:
    with closing(Catalogue(tmp_path / "catalogue.db")) as catalogue:
        assert fleet_in(catalogue) is None
        for name, sectors, blocks in (("a", 1, (10, 20)), ("b", 16, (60,)), ("empty", 16, ())):
            catalogue.add_holding(HoldingRecord(name, "", b"", None, b"", sectors, encrypted=False))
            for number, count in enumerate(blocks):
                length = count * 31 * sectors - 1  # an ending takes the rest of the last block
                file = FileRecord(f"{number}", bytes([number]) * 16, 1, length, bytes(32))
                catalogue.conclude(name, Intent(file))
        fleet = fleet_in(catalogue)
    assert fleet == Fleet(Counter({1: 1, 16: 1}), blocks=45)
    mean = (gas_of_an_audit(1, Settlement.SINGLE) + gas_of_an_audit(16, Settlement.SINGLE)) / 2
    assert fleet.gas_of_an_audit(Settlement.SINGLE) == mean
