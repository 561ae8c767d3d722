"""Formulas: the `forward` and `backward` lines of a layer's docstring, parsed, simplified, printed and evaluated.

formula  := name '=' expr
expr     := term (('+' | '-') term)*
term     := factor (('*' | '/' | '@') factor)*
factor   := '-' factor | base ('^' (number | '(' expr ')' | 'T'))?
base     := (number | name | name '(' expr (',' expr)* ')' | '(' expr ')') ('[' expr ']')*
name     := [A-Za-z_][A-Za-z_0-9]* ('.' [A-Za-z_0-9]+)*

Equations stand beside each other with three spaces or more between them. Arrays are those of one sample; heads and
gates come first: (H, T, D). `@` is matmul over the last two axes, ^T swaps them, a 1-D array is a row. A call is one of
FUNCTIONS, or a layer at work inside: `attn(x)` is what it gave when it was given x, `attn.backward(dy)` its way back.
The page parses the same grammar (lens/web/formula.js): the string shown is the string evaluated.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from glassformer.errors import ContractError
from glassformer.formula_functions import CONSTANTS, FUNCTIONS, OPERATIONS, Array

TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*(?:\.\w+)*|[-+*/@^()\[\],=])")
BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "@": 2, "neg": 3, "^": 4}
TIGHTEST = 5


@dataclass(frozen=True)
class Expr:
    """`kind`: number, name, call, index, neg, ^, T or one of + - * / @; `text`: the number, or the name."""

    kind: str
    text: str = ""
    parts: tuple["Expr", ...] = ()

    def __str__(self) -> str:
        return printed(self)

    def walk(self) -> Iterator["Expr"]:
        yield self
        for part in self.parts:
            yield from part.walk()

    def names(self) -> list[str]:
        """What it reads, in order; not what it calls."""
        return list(dict.fromkeys(one.text for one in self.walk() if one.kind == "name"))

    def calls(self) -> list[str]:
        return list(dict.fromkeys(one.text for one in self.walk() if one.kind == "call"))


@dataclass(frozen=True)
class Formula:
    name: str
    expr: Expr

    def __str__(self) -> str:
        return f"{self.name} = {self.expr}"


class Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, at = text, [], 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            if found is None:
                raise self.error(f"{text[at:].strip()[0]!r} came")
            self.tokens.append(found[1])
            at = found.end()
        self.tokens.append("the end")

    def error(self, what: str) -> ContractError:
        return ContractError(f"formula {self.text!r}: {what}, expected the grammar of glassformer/formulas.py")

    def take(self, *wanted: str) -> str:
        """The next token, if it is one of these (any, where none is named)."""
        if wanted and self.tokens[0] not in wanted:
            return ""
        return self.tokens.pop(0)

    def must(self, wanted: str) -> None:
        if not self.take(wanted):
            raise self.error(f"{self.tokens[0]!r} came instead of {wanted!r}")

    def formula(self) -> Formula:
        name = self.base()
        if name.kind != "name":
            raise self.error("no name stands on the left")
        self.must("=")
        found = Formula(name.text, self.sum())
        self.must("the end")
        return found

    def sum(self) -> Expr:
        left = self.product()
        while op := self.take("+", "-"):
            left = Expr(op, parts=(left, self.product()))
        return left

    def product(self) -> Expr:
        left = self.factor()
        while op := self.take("*", "/", "@"):
            left = Expr(op, parts=(left, self.factor()))
        return left

    def factor(self) -> Expr:
        if self.take("-"):
            return Expr("neg", parts=(self.factor(),))
        base = self.base()
        if not self.take("^"):
            return base
        return Expr("T", parts=(base,)) if self.take("T") else Expr("^", parts=(base, self.base()))

    def base(self) -> Expr:
        token = self.take()
        if token == "(":
            found = self.sum()
            self.must(")")
        elif token[0].isdigit():
            found = Expr("number", token)
        elif not (token[0].isalpha() or token[0] == "_") or token == "the end":
            raise self.error(f"{token!r} came instead of a name or a number")
        elif self.take("("):
            arguments = [self.sum()]
            while self.take(","):
                arguments.append(self.sum())
            self.must(")")
            found = Expr("call", token, tuple(arguments))
        else:
            found = Expr("name", token)
        while self.take("["):
            found = Expr("index", parts=(found, self.sum()))
            self.must("]")
        return found


@cache
def parse(text: str) -> Formula:
    """
    >>> print(parse("dx = y*(dy - sum(dy * y))"))
    dx = y * (dy - sum(dy * y))
    """
    return Parser(text).formula()


def printed(expr: Expr, binds: int = 0) -> str:
    """With brackets only where something around it binds as strongly."""
    text, parts = expr.text, expr.parts
    match expr.kind:
        case "number" | "name":
            return text
        case "call":
            return f"{text}({', '.join(map(printed, parts))})"
        case "index":
            return f"{printed(parts[0], TIGHTEST)}[{printed(parts[1])}]"
        case "T":
            return f"{printed(parts[0], TIGHTEST)}^T"
        case "^":
            power = printed(parts[1]) if parts[1].kind == "number" else f"({printed(parts[1])})"
            shown = f"{printed(parts[0], TIGHTEST)}^{power}"
        case "neg":
            shown = f"-{printed(parts[0], BINDS['neg'])}"
        case op:
            shown = f"{printed(parts[0], BINDS[op])} {op} {printed(parts[1], BINDS[op] + 1)}"
    return f"({shown})" if BINDS[expr.kind] < binds else shown


# ---- what a layer states

Direction = Literal["forward", "backward"]


@cache
def docstring(layer: type) -> str:
    """The class's own where it states formulas; else the module's, if this is the one layer in it; else the class's."""
    own = inspect.cleandoc(layer.__doc__ or "")
    module = sys.modules.get(layer.__module__)
    layers = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == layer.__module__]
    is_only = [one for one in layers if "forward" in vars(one)] == [layer]
    if any(lines(own)) or not is_only or module is None:
        return "" if own.startswith(f"{layer.__name__}(") else own  # what dataclass writes is no docstring
    return inspect.cleandoc(module.__doc__ or "")


def stated(layer: type, direction: Direction) -> tuple[Formula, ...]:
    """
    >>> from glassformer.layers import Linear
    >>> print(*stated(Linear, "backward"), sep="\\n")
    dx = dy @ w^T
    dw = x^T @ dy
    db = sum_tokens(dy)
    """
    forward, backward = lines(docstring(layer))
    return tuple(map(parse, forward if direction == "forward" else backward))


def lines(text: str) -> tuple[list[str], list[str]]:
    """The equations behind `forward` and `backward`, and in the indented lines that follow."""
    found: dict[str, list[str]] = {"forward": [], "backward": []}
    now = None
    for line in text.splitlines():
        begins = re.match(r"(forward|backward)\s{3,}", line)
        now = found[begins[1]] if begins else now if line.startswith("   ") else None
        if now is not None:
            body = line[begins.end() :] if begins else line
            now += [re.sub(r"\s+", " ", one) for one in re.split(r"\s{3,}", body.strip())]
    return found["forward"], found["backward"]


# ---- without what is absent

DROPS = ("masked",)  # functions that are their first argument where the second is absent


@dataclass(frozen=True)
class Scope:
    """What the names of a formula mean to the layer at work."""

    has: Callable[[str], bool]  # a value, a weight, a setting or a size of that name is here
    part: Callable[[str], Literal["works", "passes", "absent"]]  # a layer inside, or `inner.backward`
    defined: Mapping[str, Expr] = field(default_factory=dict)  # names that other lines define

    def simplify(self, formula: Formula) -> Formula | None:
        """Without the names that are absent here; None where nothing is left.

        >>> linear = Scope({"x", "w"}.__contains__, lambda name: "absent")
        >>> print(linear.simplify(parse("y = drop(x) @ w + b")))
        y = x @ w
        """
        expr = self.simpler(formula.expr, frozenset({formula.name}))
        return None if expr is None else Formula(formula.name, expr)

    def simpler(self, expr: Expr, above: frozenset[str]) -> Expr | None:
        if expr.kind == "number" or (expr.kind == "name" and (expr.text in CONSTANTS or self.has(expr.text))):
            return expr
        if expr.kind == "name":
            body = None if expr.text in above else self.defined.get(expr.text)
            return None if body is None else self.simpler(body, above | {expr.text})
        parts = [self.simpler(part, above) for part in expr.parts]
        here = tuple(part for part in parts if part is not None)
        if expr.kind == "call":
            return self.simpler_call(expr, parts, here)
        if len(here) == len(parts):
            return inverted(expr, here)
        if expr.kind == "-" and parts[0] is None and here:
            return Expr("neg", parts=here)
        if expr.kind == "/" and parts[0] is None and here:
            return Expr("/", parts=(Expr("number", "1"), *here))
        return here[0] if here and expr.kind in "+-*/@" else None

    def simpler_call(self, expr: Expr, parts: list[Expr | None], here: tuple[Expr, ...]) -> Expr | None:
        state = self.part(expr.text)
        if state == "works":
            return Expr("call", expr.text, here) if here else None
        if state == "passes" or expr.text not in FUNCTIONS:
            return parts[0]
        if len(here) < len(parts):
            return parts[0] if expr.text in DROPS else None
        return Expr("call", expr.text, here)


def inverted(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """a * (1 / b) -> a / b"""
    if expr.kind == "*" and parts[1].kind == "/" and parts[1].parts[0] == Expr("number", "1"):
        return Expr("/", parts=(parts[0], parts[1].parts[1]))
    return Expr(expr.kind, expr.text, parts)


# ---- with numbers


def evaluate(expr: Expr, value: Callable[[str], Array], part: Callable[[str, list[Array]], Array | None]) -> Array:
    """`part` gives what a layer inside gave for these arguments; None: a function is called.

    >>> import numpy as np
    >>> arrays = {"x": np.array([[1.0, 2.0]]), "w": np.eye(2)}
    >>> evaluate(parse("y = x @ w + sum(x)").expr, arrays.__getitem__, lambda name, given: None)
    array([[4., 5.]])
    """

    def worth(expr: Expr) -> Array:
        if expr.kind == "number":
            return float(expr.text)
        if expr.kind == "name":
            return CONSTANTS[expr.text] if expr.text in CONSTANTS else value(expr.text)
        parts = [worth(one) for one in expr.parts]
        if expr.kind == "call":
            given = part(expr.text, parts)
            return FUNCTIONS[expr.text](*parts) if given is None else given
        return OPERATIONS[expr.kind](*parts)

    return worth(expr)
