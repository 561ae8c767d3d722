"""Training: from a recipe and data to a run folder. Gradients are the written-out ones, never autodiff's."""

from glassformer.train.gradient import loss_and_gradient
from glassformer.train.recipe import Recipe

__all__ = ["Recipe", "loss_and_gradient"]
