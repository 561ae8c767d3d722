"""DeiT: `DeiTForImageClassification` of transformers, which reads the class token alone, and its `…WithTeacher`, which
takes the mean of two heads (Touvron et al., 2020). A ViT with a distillation token: vit.py has the names.
"""

from dataclasses import replace

from glassformer.hub import vit

ARCHITECTURES = tuple(vit.ARCHITECTURES["deit"])
FORMAT = replace(
    vit.FORMAT,
    model_type="deit",
    architecture=ARCHITECTURES[0],
    others=ARCHITECTURES[1:],
    fits=lambda model: model.distillation != "none",
)
