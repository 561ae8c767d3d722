"""Writing text with a trained model: GPT and recurrent models go on from a prompt, T5 answers one.

A decoder asks the model for prefill and step (models/incremental.py); sampling, beam search and text ask a decoder.
Nothing here trains, and nothing here reads files.
"""

from glassformer.generate.beam import BeamSearch
from glassformer.generate.decoder import Decoder, answers, writes
from glassformer.generate.engines import decoder_for
from glassformer.generate.sampling import Sampling
from glassformer.generate.text import answer_text, best_answers, continue_text

__all__ = [
    "BeamSearch",
    "Decoder",
    "Sampling",
    "answer_text",
    "answers",
    "best_answers",
    "continue_text",
    "decoder_for",
    "writes",
]
