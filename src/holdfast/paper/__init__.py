"""The paper's tables and figures, made anew: trained, tried on matched episodes, compared."""
