"""Investigations: why is my accuracy low? A plan of hypotheses, run with paired seeds, answered with intervals."""
