"""A case with the lines added that a tool's documentation asks for, as its user would add them.

Works on the syntax tree, so that every case gets the same lines at the same places. The data set,
the loader and the length of a step stay as they are.
"""

from __future__ import annotations

import ast
from pathlib import Path

# The calls that are a case's training step: what a real script would give to its model.
STEP_CALLS = {
    *("train_step", "update_policy", "time.sleep", "detector", "detector.backward"),
    "accelerator.step",
}


def for_traceml(path: Path) -> str:
    """Its plain PyTorch example: `init` before the loop, `trace_step(model)` around each step."""
    module, block, place = _parsed(path)
    loop = _batch_loop(block[place])
    last = max(i for i, line in enumerate(loop.body) if _is_step(line))
    _InModel().visit(loop)
    loop.body.insert(last + 1, _lines("peer.finish()")[0])
    loop.body = [_within("traceml.trace_step(peer.model)", loop.body)]
    block[place:place] = _lines(
        "import traceml_ai as traceml",
        "traceml.init(mode='auto')",
        "from step import Step",
        "peer = Step()",
    )
    return _unparsed(module)


def for_gpuprof(path: Path) -> str:
    """Its manual interface: `wrap_dataloader`, `step`, and the step's work in a phase of its own.

    The two lines of its quickstart take all from the optimizer's step to the next forward pass for
    waiting on the loader, a read-back of the loss too; this interface does not.
    """
    module, block, place = _parsed(path)
    loop = _batch_loop(block[place])
    for node in ast.walk(loop.iter):
        if isinstance(node, ast.Name) and node.id == "loader":
            node.id = "prof.wrap_dataloader(loader)"
    body = [_within("s.phase('forward')", [line]) if _is_step(line) else line for line in loop.body]
    loop.body = [_within("prof.step(next(numbers)) as s", body)]
    block[place] = _within("gpuprof.profile('case', auto=False) as prof", [block[place]])
    block[place:place] = _lines("import gpuprof, itertools", "numbers = itertools.count()")
    return _unparsed(module)


def for_spdl(path: Path, cached: bool) -> str:
    """The case noting the end of each step; `cached` with CacheDataLoader before the loop."""
    module, block, place = _parsed(path)
    _batch_loop(block[place]).body.insert(0, _lines("steps.begun()")[0])
    before = ["from timed import Steps", "steps = Steps()"]
    if cached:
        before += [
            "from spdl.dataloader import CacheDataLoader",
            "loader = CacheDataLoader(loader, num_caches=10, return_caches_after=100,"
            " stop_after=500)",
        ]
    block[place : place + 1] = [*_lines(*before), block[place], *_lines("steps.show()")]
    return _unparsed(module)


def without_loops(path: Path) -> str:
    """The imports, classes and functions of the case: what a workload file of loadtune needs."""
    module = ast.parse(path.read_text())
    module.body = [
        line
        for line in module.body
        if isinstance(line, (ast.Import, ast.ImportFrom, ast.ClassDef))
        or (isinstance(line, ast.FunctionDef) and line.name != "main")
    ]
    return ast.unparse(module)


def _parsed(path: Path) -> tuple[ast.Module, list[ast.stmt], int]:
    """The tree, and the block and the place in it of the outermost loop over the loader."""
    module = ast.parse(path.read_text())
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.With)):
            for place, line in enumerate(node.body):
                if isinstance(line, ast.For) and _over_the_loader(line):
                    return module, node.body, place
    raise ValueError(f"{path} has no loop over `loader`")


def _unparsed(module: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(module))


def _over_the_loader(node: ast.AST) -> list[ast.For]:
    return [
        inner
        for inner in ast.walk(node)
        if isinstance(inner, ast.For)
        and any(isinstance(name, ast.Name) and name.id == "loader" for name in ast.walk(inner.iter))
    ]


def _batch_loop(loops: ast.stmt) -> ast.For:
    return _over_the_loader(loops)[0]


def _lines(*source: str) -> list[ast.stmt]:
    return ast.parse("\n".join(source)).body


def _is_step(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func) in STEP_CALLS
        for inner in ast.walk(node)
    )


def _within(context: str, body: list[ast.stmt]) -> ast.stmt:
    wrapped = _lines(f"with {context}:\n    pass")[0]
    assert isinstance(wrapped, ast.With)
    wrapped.body = body
    return wrapped


class _InModel(ast.NodeTransformer):
    """`train_step(x)` becomes `peer.forward(lambda: train_step(x))`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Wrap a call of the step; what is inside of it stays."""
        if ast.unparse(node.func) not in STEP_CALLS:
            return self.generic_visit(node)
        wrapped = ast.parse("peer.forward(lambda: None)", mode="eval").body
        assert isinstance(wrapped, ast.Call) and isinstance(wrapped.args[0], ast.Lambda)
        wrapped.args[0].body = node
        return wrapped
