"""A model as one ONNX file: bytes, numbers or ids in, logits out, for any batch and, of texts, any length.

It is checked by ONNX's own checker and, where onnxruntime is installed, against our logits before it is written.
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import glassformer
from glassformer.data.dataset import IMAGES, ROWS, TEXTS
from glassformer.errors import EngineError, GlassformerError
from glassformer.files import write_whole
from glassformer.hub import onnx_layers  # noqa: F401 - registers the entries
from glassformer.hub.onnx_graph import Graph
from glassformer.layers import Embedding
from glassformer.layers.contract import keywords, param_shapes
from glassformer.models.model import Network
from glassformer.names import named_leaves
from glassformer.structure import Node, Value, structure
from glassformer.train.weights import must_be_finite

OPSET, IR = 20, 9  # the first with Gelu, and the file format of its time: older runtimes read it, too
NAMES = {IMAGES: "images", ROWS: "columns", TEXTS: "ids"}
MASK, OFFERED = "keep", {"keep": jnp.bool_, "segments": jnp.int32}  # keywords of a model that become inputs
LARGEST = 2**31 - 2**20  # bytes of weights: a protobuf file ends at 2 GiB
CLOSE = 1e-3  # of the largest logit; rounding stays far below it
SAMPLES, LENGTH = 3, 9  # that are compared


class Given(NamedTuple):
    """What a model is given, as shapes, names or arrays."""

    x: Any
    keywords: dict[str, Any]


@dataclass(frozen=True)
class Exported:
    """A file that was written."""

    bytes: int
    nodes: int
    inputs: dict[str, str]  # name -> type and axes
    output: str
    difference: float | None  # from our logits, over the largest of them where that is above 1; None: not compared


def write_onnx(
    path: Path, model: Network, params: Any, *, classes: tuple[str, ...] = (), output: str = "logits"
) -> Exported:
    """Nothing is written where a layer has no ONNX, a weight is not finite or onnxruntime computes something else."""
    proto = onnx_model(model, params, classes=classes, output=output)
    content = proto.SerializeToString(deterministic=True)
    difference = largest_difference(content, model, params) if onnxruntime_version() else None
    if difference is not None and not difference < CLOSE:
        raise EngineError(
            f"{path}: not written: in onnxruntime its logits differ from ours by {difference:.1e} of the largest, "
            f"expected less than {CLOSE:g}; does the model have a layer whose `register.onnx` computes something else?"
        )
    write_whole(path, content)
    inputs = {one.name: described(one) for one in proto.graph.input}
    return Exported(len(content), len(proto.graph.node), inputs, described(proto.graph.output[0]), difference)


def onnx_model(model: Network, params: Any, *, classes: tuple[str, ...] = (), output: str = "logits") -> Any:
    """The checked `onnx.ModelProto` of a model: weights have their dotted names, the one output is called `output`."""
    onnx = needed("onnx")
    weights = named_leaves(params)
    must_be_finite(weights, "ONNX export")
    if (size := sum(weight.nbytes for weight in weights.values())) > LARGEST:
        raise EngineError(f"ONNX export: the weights take {size / 2**30:.1f} GiB, and a file of ONNX ends at 2 GiB")
    given = given_to(model)
    axes, any_length = output_axes(model, given)
    names = input_names(model, given)
    graph = Graph(weights, (*jax.tree.leaves(names), output), any_length=any_length)
    root = structure(model, **given.keywords)
    graph.know((root.x, root.keywords), tuple(names))
    graph.finish(graph.layer(root), output)

    def info(name: str, dtype: Any, axes: Any) -> Any:
        wide = np.int64 if np.issubdtype(dtype, np.signedinteger) else dtype  # as other exporters have ids
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(wide)), axes)

    read = {name for node in graph.nodes for name in node.input}
    inputs = [
        info(name, one.dtype, ["batch", *(["tokens"] if any_length else one.shape[1:])])
        for name, one in zip(jax.tree.leaves(names), jax.tree.leaves(given), strict=True)
        if name in read or name not in OFFERED  # a model without segments reads none
    ]
    arrays = [onnx.numpy_helper.from_array(array, name) for name, array in graph.arrays.items()]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, type(model).__name__, inputs, [info(output, np.float32, axes)], arrays),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="glassformer",
        producer_version=glassformer.__version__,
        doc_string=f"{type(model).__name__} for {model.input.reads}",
    )
    onnx.helper.set_model_props(proto, {"classes": json.dumps(classes, ensure_ascii=False)} if classes else {})
    onnx.checker.check_model(proto, full_check=True)
    return proto


def needed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise EngineError(f"ONNX export: {package} is not installed; pip install 'glassformer[onnx]'") from None


def given_to(model: Network) -> Given:
    """One sample, as shapes. Behind a text that is read from the left padding changes nothing: it takes no mask."""
    x = model.example(1)
    if model.input.reads != TEXTS or not isinstance(x, jax.ShapeDtypeStruct):
        return Given(x, {})
    names = [name for name in OFFERED if name in keywords(model) and not (name == MASK and "next-token" in model.tasks)]
    return Given(x, {name: jax.ShapeDtypeStruct(x.shape, OFFERED[name]) for name in names})


def input_names(model: Network, given: Given) -> Given:
    """x by what the model reads, its parts and the keywords by their own names."""
    leaves, form = jax.tree.flatten(given.x)
    names = list(named_leaves(given.x)) if len(leaves) > 1 else [NAMES.get(model.input.reads, "x")]
    return Given(form.unflatten(names), {name: name for name in given.keywords})


def output_axes(model: Network, given: Given) -> tuple[list[int | str], bool]:
    """The axes of the output, and whether the model takes texts of any length: tried with one that is shorter."""
    whole = y_of(model, given)
    if not isinstance(whole, jax.ShapeDtypeStruct):
        raise EngineError(f"ONNX export has models with one array of logits, and {type(model).__name__} gives {whole}")
    x, short = given.x, whole
    any_length = model.input.reads == TEXTS and isinstance(x, jax.ShapeDtypeStruct) and x.shape[1] > 1
    if any_length:
        fewer = jax.tree.map(lambda one: jax.ShapeDtypeStruct((1, x.shape[1] - 1), one.dtype), given)
        try:
            short = y_of(model, fewer)
        except (GlassformerError, TypeError, ValueError):  # it needs them all
            any_length = False
    sizes = zip(whole.shape[1:], short.shape[1:], strict=True)
    return ["batch", *(size if size == other else "tokens" for size, other in sizes)], any_length


def y_of(model: Network, given: Given) -> Any:
    return jax.eval_shape(lambda p, g: model.forward(p, g.x, **g.keywords)[0], param_shapes(model), given)


def described(info: Any) -> str:
    """`uint8 (batch, 28, 28, 1)`."""
    kind = needed("onnx").helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    axes = (axis.dim_param or str(axis.dim_value) for axis in info.type.tensor_type.shape.dim)
    return f"{kind} ({', '.join(axes)})"


def onnxruntime_version() -> str | None:
    """None where it, or onnx, is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime.__version__


def session(content: bytes) -> Any:
    """An onnxruntime session on one thread of the CPU."""
    onnxruntime = needed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def largest_difference(content: bytes, model: Network, params: Any) -> float:
    """Between onnxruntime's logits and ours, of a few drawn samples; over the largest logit, where that is above 1."""
    given, runtime = given_to(model), session(content)
    names, root = input_names(model, given), structure(model, **given.keywords)
    drawn = draw(root, any_length="tokens" in runtime.get_inputs()[0].shape)
    ours = np.asarray(jax.jit(lambda p, g: model.forward(p, g.x, **g.keywords)[0])(params, drawn))
    theirs, *_ = runtime.run(None, feed(runtime, names, drawn))
    return float(np.abs(ours - theirs).max() / max(1, np.abs(ours).max()))


def draw(root: Node, *, any_length: bool) -> Given:
    """Random samples. Ids are below the size of the table that is read by them; masks leave out what lies behind."""
    random = np.random.default_rng(0)
    limits = {node.x: node.layer.vocabulary for node in root.walk() if isinstance(node.layer, Embedding)}

    def array(value: Value) -> np.ndarray:
        _, *axes = value.shape
        shape = (SAMPLES, min(axes[0], LENGTH)) if any_length else (SAMPLES, *axes)
        if value.dtype == jnp.bool_:
            return np.arange(shape[1]) < random.integers(1, shape[1] + 1, (SAMPLES, 1))
        if np.issubdtype(value.dtype, np.integer):
            return random.integers(limits.get(value, 256), size=shape).astype(value.dtype)
        return random.standard_normal(shape).astype(np.float32)

    return jax.tree.map(array, Given(root.x, root.keywords))


def feed(runtime: Any, names: Given, arrays: Given) -> dict[str, np.ndarray]:
    """What a session is run with."""
    wanted = {one.name for one in runtime.get_inputs()}
    pairs = zip(jax.tree.leaves(names), jax.tree.leaves(arrays), strict=True)
    return {
        name: np.asarray(array, np.int64 if array.dtype == np.int32 else None)
        for name, array in pairs
        if name in wanted
    }
