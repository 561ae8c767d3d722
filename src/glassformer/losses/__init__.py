"""Losses keep the layers' contract: forward gives one number, backward starts the gradient. Labels are a keyword."""

from glassformer.losses.cross_entropy import CrossEntropy
from glassformer.losses.head_and_loss import HeadAndLoss
from glassformer.losses.info_nce import InfoNCE
from glassformer.losses.label_smoothing import LabelSmoothing
from glassformer.losses.loss import Loss
from glassformer.losses.mean_squared_error import MeanSquaredError
from glassformer.registry import register

__all__ = ["CrossEntropy", "HeadAndLoss", "InfoNCE", "LabelSmoothing", "Loss", "MeanSquaredError"]

for _cls in (CrossEntropy, InfoNCE, LabelSmoothing, MeanSquaredError):
    register.loss(_cls.__module__.rpartition(".")[2].replace("_", "-"))(_cls)  # as its file is called
