"""Models on small devices: a trained model as C99 for a microcontroller, and the emulated boards that prove it.

Above native, whose kernels it shares, and predict, which opens runs. Nothing here trains or measures this machine.
"""
