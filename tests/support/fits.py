"""Fits that nothing was fitted to, and small fleets, for the tests of inference."""

from dataclasses import replace

from benchmarks.inference import FLEET

from holdfast.inference.fit import Fitted
from holdfast.model.estimate import Estimate


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
