"""Small faults of changed lines, by five operators on the syntax tree."""

import ast
import copy
import dataclasses
from collections.abc import Collection, Iterator

_OPPOSITES = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a file.

    Attributes:
        line: where, from 1.
        before: the code.
        after: what replaces it.
        source: the whole file, changed.
    """

    line: int
    before: str
    after: str
    source: str


def mutants(source: str, lines: Collection[int]) -> Iterator[Mutant]:
    """Yields the mutants of some lines of a file.

    A call whose result nobody uses is dropped; a keyword is left out of a call;
    a comparison is flipped at its boundary, or to its opposite; `and` and `or`
    are exchanged; an integer is one more, or one less.
    """
    for node in _nodes(ast.parse(source)):
        if getattr(node, "lineno", None) not in lines:
            continue
        for changed in _changes(node):
            before = ast.get_source_segment(source, node)
            after = ast.unparse(changed)
            if not isinstance(node, ast.stmt):
                after = f"({after})"
            yield Mutant(node.lineno, before, after, _put(source, node, after))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walks a tree; parts of f-strings have no exact place."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.JoinedStr):
            yield child
            yield from _nodes(child)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    elif isinstance(node, ast.Call):
        for place in range(len(node.keywords)):
            changed = copy.deepcopy(node)
            del changed.keywords[place]
            yield changed
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[place] = _OPPOSITES[type(operator)]()
            yield changed
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def _put(source: str, node: ast.AST, text: str) -> str:
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    first, last = node.lineno - 1, node.end_lineno - 1
    head = lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :]
    lines[first : last + 1] = [head + text.encode() + tail]
    return b"".join(lines).decode()
