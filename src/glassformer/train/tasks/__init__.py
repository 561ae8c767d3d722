"""What a model is trained to do, one task a file: how samples are made of data, how a step draws its batch from them.

A task knows nothing of the model but what its forward takes: x, and keywords such as `keep`.
"""

from glassformer.registry import register
from glassformer.train.tasks.answer import Answering, Prompted
from glassformer.train.tasks.chat import Chat
from glassformer.train.tasks.classify import Classify
from glassformer.train.tasks.contrast import Contrast
from glassformer.train.tasks.embed import Embed, Vectors
from glassformer.train.tasks.masked import Masked
from glassformer.train.tasks.next_token import NextToken
from glassformer.train.tasks.regress import Regress
from glassformer.train.tasks.span import Span
from glassformer.train.tasks.tag import Tag
from glassformer.train.tasks.task import Batch, Task
from glassformer.train.tasks.translate import Translate

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "next-token": NextToken,
    "masked": Masked,
    "tag": Tag,
    "span": Span,
    "translate": Translate,
    "regress": Regress,
    "embed": Embed,
    "contrast": Contrast,
    "answer": Answering,
    "chat": Chat,
}
for _name, _cls in TASKS.items():
    register.task(_name)(_cls)

__all__ = [
    "TASKS",
    "Answering",
    "Batch",
    "Chat",
    "Classify",
    "Contrast",
    "Embed",
    "Masked",
    "NextToken",
    "Prompted",
    "Regress",
    "Span",
    "Tag",
    "Task",
    "Translate",
    "Vectors",
]
