"""Losses keep the layers' contract: forward gives one number, backward starts the gradient. Labels are a keyword."""

from glassformer.losses.cross_entropy import CrossEntropy
from glassformer.losses.label_smoothing import LabelSmoothing

__all__ = ["CrossEntropy", "LabelSmoothing"]
