"""Own parts by name: registered, of an installed package, or from a file; and nothing else is imported."""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer import load_code, register, registry
from glassformer.errors import ContractError, FileError, SettingError
from glassformer.layers import LayerNorm
from glassformer.models import ViT
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain, must_survive, to_plain, to_toml

MODEL = """
from dataclasses import dataclass
from glassformer import register
from glassformer.models import MLP

@register.model("{name}")
@dataclass(frozen=True)
class Own(MLP):
    extra: int = 3
"""


pytestmark = pytest.mark.usefixtures("registry_as_it_was")


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_name_is_taken_once() -> None:
    with pytest.raises(
        SettingError, match=r"register\.model\('vit'\): .*Other came, and glassformer.*ViT has this name"
    ):

        @register.model("vit")
        class Other: ...


def test_a_cell_of_a_notebook_may_run_twice() -> None:
    for setting in (1, 2):

        @register.part("again")
        @dataclass(frozen=True)
        class Again:
            value: int = setting

    assert registry.find("part", "again")().value == 2


def test_a_file_is_loaded_once_and_its_classes_survive_pickle(tmp_path: Path) -> None:
    file = written(tmp_path, MODEL.format(name="own-of-file"))
    module = load_code(file)
    assert load_code(str(file)) is module
    assert registry.loaded_code() == (file.resolve(),)
    recipe = from_plain(Recipe, {"model": {"kind": "own-of-file", "hidden": [5]}})
    assert recipe.model == module.Own(hidden=(5,))
    assert pickle.loads(pickle.dumps(recipe.model)) == recipe.model
    must_survive(recipe)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", r"importing it failed: ZeroDivisionError: division by zero \(line 2: y = x / 0\)"),
        ("def f(:\n", r"importing it failed: SyntaxError: .*line 1"),
        (MODEL.format(name="vit"), r"importing it failed: SettingError: register\.model\('vit'\)"),
    ],
)
def test_a_file_that_fails_says_where(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=message):
        load_code(written(tmp_path, text))
    assert registry.loaded_code() == ()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"gone\.py: there is no such file; expected a Python file"):
        load_code(tmp_path / "gone.py")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package as pip installs it: its code, and what it says of itself."""
    written(tmp_path, "import sys\nsys.stdout.write('imported')\n" + MODEL.format(name="theirs"), "their_package.py")
    about = tmp_path / "their_package-1.0.dist-info"
    about.mkdir()
    written(about, "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n", "METADATA")
    points = "[glassformer.models]\ntheirs = their_package:Own\nbroken = their_package:Gone\n"
    written(about, points, "entry_points.txt")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entry_points.cache_clear()
    yield tmp_path
    sys.modules.pop("their_package", None)


def test_an_installed_package_is_imported_when_its_name_is_looked_up(package: Path, capsys: Any) -> None:
    assert {"theirs", "vit"} <= set(registry.names("model"))
    from_plain(Recipe, {"model": {"kind": "vit"}})
    with pytest.raises(SettingError, match=r"\(did you mean 'theirs'\?\)"):
        from_plain(Recipe, {"model": {"kind": "their"}})
    assert capsys.readouterr().out == ""
    recipe = from_plain(Recipe, {"model": {"kind": "theirs", "extra": 4}})
    assert capsys.readouterr().out == "imported"
    assert to_plain(recipe.model)["kind"] == "theirs"


def test_the_class_of_a_package_has_its_name_without_a_decorator(package: Path) -> None:
    text = (package / "their_package.py").read_text()
    (package / "their_package.py").write_text(text.replace('@register.model("theirs")\n', ""))
    import their_package  # pyright: ignore[reportMissingImports]

    (package / "their_package-1.0.dist-info" / "entry_points.txt").write_text(
        "[glassformer.models]\ntheirs = their_package:Own\n"
    )
    registry._entry_points.cache_clear()
    must_survive(Recipe(model=their_package.Own()))


def test_a_package_that_cannot_give_what_it_names(package: Path) -> None:
    with pytest.raises(SettingError, match=r"model 'broken': the installed package their-package cannot give it: Attr"):
        from_plain(Recipe, {"model": {"kind": "broken"}})


def test_an_unknown_kind_says_what_to_give() -> None:
    message = r"model\.kind: 'vitt' came \(did you mean 'vit'\?\), expected mlp.*; if it is your own, .*--code FILE"
    with pytest.raises(SettingError, match=message):
        from_plain(Recipe, {"model": {"kind": "vitt"}})


@register.part("nested-scale")
@dataclass(frozen=True)
class Scale:
    by: float = 1.0


@dataclass(frozen=True)
class Holder:
    layers: tuple[glassformer.layers.Layer, ...] = ()  # pyright: ignore[reportAttributeAccessIssue]
    scale: Scale | None = None
    text: str = ""


def test_parts_inside_parts_are_written_and_read() -> None:
    register.part("nested-scale")(Scale)
    holder = Holder((LayerNorm(3), LayerNorm(5, eps=1e-3)), Scale(float("inf")), 'a "word" \x7f 😀')
    must_survive(holder)
    assert '[[layers]]\nkind = "layer-norm"\nwidth = 3' in to_toml(to_plain(holder))


@dataclass(frozen=True)
class Nameless(ViT):
    pass


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Recipe(model=Nameless()), r"model is Nameless, which has no name; .*@register\.model\(\"nameless\"\)"),
        (Recipe(model=ViT(width=float("nan"))), r"model\.width"),  # pyright: ignore[reportArgumentType]
        (Recipe(data=3), "data: 3 came"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_recipe_that_cannot_be_read_back_is_refused(settings: Recipe, message: str) -> None:
    with pytest.raises(SettingError, match=f"cannot be written down.*{message}"):
        must_survive(settings)
