"""Models for microcontrollers: a trained run as C99 that needs no operating system, its memory known beforehand.

Steps and their memory (steps, layers, plan), the C that is written (write, folder; kernels in c/), int8 (quantise),
learning on the device (training), what fits which board (boards, budget), and the proof in an emulator. Nothing here
is needed to train.
"""
