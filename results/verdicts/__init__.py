"""Whether a run may be believed: its case, the rules that judge it, their thresholds, the verdict."""
