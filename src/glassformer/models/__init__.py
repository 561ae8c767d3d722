"""One model, one file: a layer made of layers, whose backward is its forward read from the bottom.

Models know layers, not losses, data or training.
"""

from glassformer.models.bert import BERT, BERTFor
from glassformer.models.bert_heads import ClassHead, MaskedHead, SpanHead, TagHead, VectorHead, next_sentence_head
from glassformer.models.columns import Columns
from glassformer.models.gpt import GPT
from glassformer.models.images import Images
from glassformer.models.input import Input
from glassformer.models.llama import Llama
from glassformer.models.mlp import MLP
from glassformer.models.model import Network
from glassformer.models.patch_attention import PatchAttention
from glassformer.models.patch_block import PatchBlock
from glassformer.models.recurrent_classifier import RecurrentClassifier
from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.models.t5 import T5
from glassformer.models.text import Text
from glassformer.models.tiny_iris import TinyIris
from glassformer.models.vit import ViT
from glassformer.registry import register

MODELS: dict[str, type[Network]] = {
    "mlp": MLP,
    "patch_attention": PatchAttention,
    "vit": ViT,
    "patch_block": PatchBlock,
    "tiny_iris": TinyIris,
    "gpt": GPT,
    "llama": Llama,
    "bert": BERT,
    "t5": T5,
    "recurrent": RecurrentLM,
    "recurrent-classifier": RecurrentClassifier,
}
for _name, _cls in {**MODELS, "bert-for": BERTFor}.items():
    register.model(_name)(_cls)

__all__ = [
    "BERT",
    "GPT",
    "MLP",
    "MODELS",
    "T5",
    "BERTFor",
    "ClassHead",
    "Columns",
    "Images",
    "Input",
    "Llama",
    "MaskedHead",
    "Network",
    "PatchAttention",
    "PatchBlock",
    "RecurrentClassifier",
    "RecurrentLM",
    "SpanHead",
    "TagHead",
    "Text",
    "TinyIris",
    "VectorHead",
    "ViT",
    "next_sentence_head",
]
