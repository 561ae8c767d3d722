"""Above `models/` nobody decides by a concrete model class: whoever wants to know something asks the model.

Read off the syntax tree: `isinstance`, `issubclass`, `match`, `type(…) is`, comparison of a kind with a model's name,
`hasattr` and `getattr` of a model, dictionaries keyed by a model's class.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer
from glassformer import models
from glassformer.models import MODELS

SOURCE = Path(glassformer.__file__).parent
BELOW = ("layers", "losses", "models", "check")  # check: cases name what they check
CLASSES = {
    name
    for name, value in vars(models).items()
    if isinstance(value, type) and hasattr(value, "backward") and value is not models.Network
} | {"RecurrentClassifier", "RecurrentLM", "TinyIris"}
ALLOWED = {
    # file: why it may
    "bench/peers.py": "each model that is measured has a twin in PyTorch, written for it",
    "hub/encoder.py": "a published format is mapped to a class",
}


def names_in(node: ast.AST) -> set[str]:
    """Classes named in an expression: ViT, models.ViT, ViT | GPT, (ViT, GPT)."""
    return {
        found
        for part in ast.walk(node)
        for found in [part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""]
        if found in CLASSES
    }


def is_model(node: ast.AST) -> bool:
    """`model`, `run.model`, `self.model`, `recipe.model`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "model"


def decisions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass" as test), args=[_, classes]):
                yield from ((node.lineno, f"{test} {name}") for name in names_in(classes))
            case ast.Call(func=ast.Name(id="hasattr" | "getattr" as test), args=[asked, *_]) if is_model(asked):
                yield node.lineno, f"{test} of a model"
            case ast.MatchClass(cls=cls):
                yield from ((node.lineno, f"case {name}") for name in names_in(cls))
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() | ast.In()]):
                if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "type":
                    yield from ((node.lineno, f"type() {name}") for name in names_in(node.comparators[0]))
                compared = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                kinds = [name for name in compared if name in MODELS]
                if kinds and "kind" in ast.unparse(left):
                    yield node.lineno, f"kind == {kinds[0]}"
            case ast.Dict(keys=keys):
                yield from ((node.lineno, f"{{{name}: …}}") for key in keys if key for name in named(key))


def named(key: ast.AST) -> set[str]:
    return names_in(key) if isinstance(key, ast.Name | ast.Attribute) else set()


def files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in BELOW]


def test_nobody_decides_by_a_concrete_model_class() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for path in files()
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for line, what in decisions(ast.parse(path.read_text()))
    ]
    assert found == []


def test_every_exception_is_still_needed() -> None:
    for name in ALLOWED:
        assert list(decisions(ast.parse((SOURCE / name).read_text()))), f"{name} needs no exception any more"


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(model, ViT)",
        "isinstance(model, models.ViT | GPT)",
        "issubclass(kind, (GPT, T5))",
        "match model:\n    case BERT(): pass",
        "type(model) is GPT",
        "type(run.model) == T5",
        "recipe['model']['kind'] == 'vit'",
        "hasattr(run.model, 'patches')",
        "getattr(model, 'pool', None)",
        "{ViT: 1, GPT: 2}[type(model)]",
    ],
)
def test_a_decision_is_seen(code: str) -> None:
    assert list(decisions(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["isinstance(layer, Linear)", "ViT(width=3)", "getattr(recipe, 'model')", "{'vit': ViT}"]
)
def test_other_code_is_not(code: str) -> None:
    assert not list(decisions(ast.parse(code)))
