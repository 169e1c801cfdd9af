"""Fits that nothing was fitted to, and small fleets, for the tests of inference."""

from dataclasses import replace

from holdfast.inference.fit import Estimate, Fitted
from holdfast.model.scenario import PAPER

# The fleet of the documentation: more honest, and with less damage, than the shipped policies
# were trained for.
FLEET = replace(PAPER, name="fleet", malicious_share=0.1, honest_rate=0.0003, malicious_rate=0.02)


def fitted(share: float) -> Fitted:
    hidden = ("malicious_share", "honest_rate", "malicious_rate")
    return Fitted(
        scenario=replace(FLEET, malicious_share=share),
        parameters={"malicious_share": Estimate(share, share / 2, share * 2)},
        log_likelihood=-1.5,
        audits=3,
        nodes=2,
        hidden=hidden,
        covariance=((0.01, 0.0, 0.0), (0.0, 0.01, 0.0), (0.0, 0.0, 0.01)),
    )
