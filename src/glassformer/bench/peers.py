"""The presets' models once more, in PyTorch, to be timed beside ours.

Each is a function of weights and of patches or token ids, written for speed: q, k and v come out of one matrix product,
the optimiser updates all weights in one call. Weights are ours, turned to PyTorch's (out, in), and batches are those
that the jax engine draws, so both sides compute the same losses.
PyTorch is an extra: it is imported inside the functions, which are called only where it is installed.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.bench import text_peers
from glassformer.bench.text_peers import Attend, bert, gpt, llama, norm, through, written_out
from glassformer.cores import cores
from glassformer.layers import GELU, GELUTanh, Rotary, SiLU, grouped_query, multi_head
from glassformer.models import BERT, GPT, Llama, PatchAttention, ViT
from glassformer.models.bert import BERTFor
from glassformer.models.bert_heads import MaskedHead
from glassformer.models.model import Network
from glassformer.names import named_leaves, with_leaves
from glassformer.train.jax_engine import key_of, keys_of_step
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

MODES = ("eager", "fused", "compiled")
SEED, EPOCH = 0, 1  # with which the jax engine draws its batches
ATTENTION = (multi_head.Params, grouped_query.Params)
IGNORED = -100  # as PyTorch has it
Forward = Callable[..., "Tensor"]  # weights, patches or ids, padding mask -> logits, one row for each label


class Attention(NamedTuple):
    """Weights of attention with q, k and v stacked."""

    w_qkv: Any
    b_qkv: Any
    w_o: Any
    b_o: Any


def training(recipe: Recipe, samples: Any, params: Any, mode: str) -> Callable[[], np.ndarray]:
    """A call that trains on the samples once, in their order, and returns the loss of each step."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    torch.set_num_threads(cores())
    weights = weights_from(params)
    forward = forward_for(recipe.model, mode)
    optimiser = optimiser_for(recipe.optimiser, jax.tree.leaves(weights))
    batches = ready(recipe, samples)

    def loss_of(y: "Tensor", *x: "Tensor") -> "Tensor":
        return F.cross_entropy(forward(weights, *x), y, label_smoothing=recipe.training.label_smoothing)

    if mode == "compiled":  # for these sizes alone: after a second preset it would be for any size, which is slower
        loss_of = torch.compile(loss_of, dynamic=False)

    def train() -> np.ndarray:
        losses = []
        for batch in batches:
            optimiser.zero_grad(set_to_none=True)
            loss = loss_of(*batch)
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        return torch.stack(losses).numpy()

    return train


def ready(recipe: Recipe, samples: Any) -> list[tuple["Tensor", ...]]:
    """Every batch that the jax engine takes, in its order: the labels in one row, patches or token ids, and the padding
    mask of a task that has one. A label that does not count is IGNORED."""
    import torch

    model, key = recipe.model, key_of(SEED, EPOCH)

    def drawn(samples: Any, step: Any, chosen: Any) -> tuple[Any, ...]:
        batch = recipe.task.drawn(samples, chosen, keys_of_step(key, step)[0])
        labels = batch.labels if batch.weights is None else jnp.where(batch.weights > 0, batch.labels, IGNORED)
        x = cut(model, batch.x) if model.input.reads == "images" else batch.x
        return labels.reshape(-1), x, *batch.keywords.values()

    order = np.arange(recipe.task.count(samples)).reshape(-1, recipe.training.batch)
    of_all_steps = jax.jit(jax.vmap(drawn, in_axes=(None, 0, 0)))(samples, np.arange(len(order)), order)
    made = (torch.tensor(np.asarray(one)) for one in of_all_steps)
    whole = [one if one.is_floating_point() or one.dtype is torch.bool else one.long() for one in made]
    return list(zip(*whole, strict=True))


def answering(model: Network, params: Any, mode: str) -> tuple[Callable[["Tensor"], "Tensor"], ...]:
    """Two ways to logits, both to be called on one thread and in inference mode: from bytes, and from patches."""
    import torch

    torch.set_num_threads(1)
    weights, forward = jax.tree.map(lambda weight: weight.detach(), weights_from(params)), forward_for(model, mode)

    def from_patches(patches: "Tensor") -> "Tensor":
        return forward(weights, patches)

    def from_bytes(images: "Tensor") -> "Tensor":
        return forward(weights, cut_here(model, images))

    if mode == "compiled":
        return torch.compile(from_bytes, dynamic=False), torch.compile(from_patches, dynamic=False)
    return from_bytes, from_patches


def forward_for(model: Network, mode: str) -> Forward:
    import torch.nn.functional as F  # noqa: N812

    attend = written_out if mode == "eager" else F.scaled_dot_product_attention
    match model:
        case PatchAttention() if type(model) is PatchAttention:
            return partial(patch_attention, attend)
        case ViT():
            return partial(vit, attend, model.heads)
        case GPT(rotary=None, tied=True, dropout=0.0, eps=1e-5, activation=GELUTanh()):
            return partial(gpt, text_peers.looking_back(model.text.context, mode), model.heads)
        case Llama(rotary=Rotary(), tied=True, head_norm=False, bias=False, activation=SiLU()):
            return llama(model, text_peers.looking_back(model.text.context, mode, grouped=True))
        case BERTFor(bert=BERT(dropout=0.0, activation=GELU(), first_position=0), head=MaskedHead(tied=True)):
            return bert(model, mode)
        case _:
            raise TypeError(f"{model!r} has no PyTorch peer")


def patch_attention(attend: Attend, weights: Any, patches: "Tensor") -> "Tensor":
    import torch.nn.functional as F  # noqa: N812

    attn, ff = weights.attn, weights.ff
    x = F.relu(F.linear(patches, weights.patch.w, weights.patch.b) + weights.positions.pos)
    z = attend(*F.linear(x, attn.w_qkv, attn.b_qkv).chunk(3, -1))
    y = F.linear(F.relu(F.linear(z, ff.w_up, ff.b_up)), ff.w_down, ff.b_down)
    return F.linear(y.mean(1), weights.head.w, weights.head.b)


def vit(attend: Attend, heads: int, weights: Any, patches: "Tensor") -> "Tensor":
    import torch.nn.functional as F  # noqa: N812

    x = F.linear(patches, weights.patch.w, weights.patch.b) + weights.positions.pos
    for block in weights.blocks:
        x = through(block, x, attend, heads, gelu="none")
    return F.linear(norm(weights.norm, x).mean(1), weights.head.w, weights.head.b)


def optimiser_for(settings: Optimiser, weights: list["Tensor"]) -> "Optimizer":
    import torch

    match settings.name:
        case "sgd":
            return torch.optim.SGD(weights, lr=settings.lr, foreach=True)
        case "adamw":
            betas = (settings.b1, settings.b2)
            return torch.optim.AdamW(
                weights, lr=settings.lr, betas=betas, weight_decay=settings.weight_decay, fused=True
            )
        case _:
            raise TypeError(f"{settings.name} has no PyTorch peer")


def weights_from(params: Any) -> Any:
    """Our params as trainable tensors, in the same structure but for attention."""
    import torch

    def tensor(name: str, leaf: Any) -> "Tensor":
        is_matrix = name.rpartition(".")[-1].startswith("w")  # (in, out) with us, (out, in) there
        return torch.tensor(np.ascontiguousarray(leaf.T if is_matrix else leaf), requires_grad=True)

    params = jax.tree.map(stacked, params, is_leaf=lambda part: isinstance(part, ATTENTION))
    return with_leaves(params, {name: tensor(name, leaf) for name, leaf in named_leaves(params).items()})


def stacked(part: Any) -> Any:
    """q, k and v of attention side by side; anything else as it is."""
    if not isinstance(part, ATTENTION):
        return part
    if part.b_q is None:
        return Attention(w_qkv=side_by_side(part.w_q, part.w_k, part.w_v), b_qkv=None, w_o=part.w_o, b_o=None)
    return Attention(
        w_qkv=side_by_side(part.w_q, part.w_k, part.w_v),
        b_qkv=side_by_side(part.b_q, part.b_k, part.b_v),
        w_o=part.w_o,
        b_o=part.b_o,
    )


def side_by_side(*arrays: Any) -> np.ndarray:
    return np.concatenate(arrays, axis=-1)


def cut(model: Any, images: np.ndarray) -> Any:
    """The images as the model's own first layers prepare them: scaled, in patches."""
    pixels, _ = model.images.prepare.forward(None, jnp.asarray(images))
    patches, _ = model.patches.forward(None, pixels)
    return patches


def cut_here(model: Any, images: "Tensor") -> "Tensor":
    """The same in PyTorch."""
    prepare, patches = model.images.prepare, model.patches
    (rows, columns), channels, size = patches.grid, model.images.shape[-1], patches.size
    pixels = images.float() * prepare.factor - prepare.mean / prepare.std
    split = pixels.view(-1, rows, size, columns, size, channels).transpose(2, 3)
    return split.reshape(-1, patches.tokens, patches.values)
