"""Training: from a model, a loss and data to trained weights. Gradients are the written-out ones, never autodiff's."""

from glassformer.train.gradient import loss_and_gradient

__all__ = ["loss_and_gradient"]
