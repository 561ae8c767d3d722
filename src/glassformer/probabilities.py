"""Softmax of arrays that are on the host already, in double precision."""

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis; -inf is a probability of 0."""
    x = logits.astype(np.float64)
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
