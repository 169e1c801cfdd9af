"""Plans: which policy and dial meet an operator's wish, at what cost."""
