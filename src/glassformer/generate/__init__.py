"""Writing text with a trained model: GPT and recurrent models go on from a prompt, T5 answers one.

Decoders know the models and remember what was read; sampling, beam search and text only see their common face.
Nothing here trains, and nothing here reads files.
"""

from glassformer.generate.beam import BeamSearch
from glassformer.generate.decoder import Decoder
from glassformer.generate.engines import decoder_for
from glassformer.generate.sampling import Sampling
from glassformer.generate.text import answer_text, best_answers, continue_text

__all__ = [
    "BeamSearch",
    "Decoder",
    "Sampling",
    "answer_text",
    "best_answers",
    "continue_text",
    "decoder_for",
]
