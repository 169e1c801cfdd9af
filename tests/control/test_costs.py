"""Costs a month follow from what an episode takes, the fleet and the prices."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.measures import measured

from holdfast.control.planning.costs import Currency, Fleet, Prices, fleet_in
from holdfast.errors import InputError
from holdfast.ledger.artefact import SECTORS
from holdfast.ledger.price import gas_of_an_audit
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


def test_every_contract_has_its_price() -> None:
    alone = [gas_of_an_audit(sectors, batched=False) for sectors in SECTORS]
    together = [gas_of_an_audit(sectors, batched=True) for sectors in SECTORS]
    assert alone == sorted(alone)
    assert all(less < more for less, more in zip(together[:-1], alone[:-1], strict=True))
    with pytest.raises(InputError, match="no contract for 5 sectors a block, only for 1, 4, 16"):
        gas_of_an_audit(5, batched=True)


def test_a_fleet_is_read_from_the_catalogue(tmp_path: Path) -> None:
    with closing(Catalogue.open(str(tmp_path / "holdfast.db"))) as catalogue:
        assert fleet_in(catalogue) is None
        for name, sectors, blocks in (("a", 1, (10, 20)), ("b", 16, (60,)), ("empty", 16, ())):
            catalogue.add_holding(HoldingRecord(name, "", b"", None, b"", sectors, encrypted=False))
            for number, count in enumerate(blocks):
                length = count * 31 * sectors - 1  # an ending takes the rest of the last block
                file = FileRecord(
                    f"{number}", "/file", bytes([number]) * 16, 1, bytes(32), length, bytes(32)
                )
                catalogue.conclude(name, Intent(file))
        fleet = fleet_in(catalogue)
    assert fleet == Fleet(Counter({1: 1, 16: 1}), blocks=45)
    mean = (gas_of_an_audit(1, batched=False) + gas_of_an_audit(16, batched=False)) / 2
    assert fleet.gas_of_an_audit(batched=False) == mean
