"""The native engine: the same model in plain C, one readable file of calls to hand-written kernels."""
