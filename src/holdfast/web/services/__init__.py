"""Services that API and pages share: caches, background refreshers, simulations."""
