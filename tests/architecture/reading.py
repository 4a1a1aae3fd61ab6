"""Reads the source tree the way the architecture tests need it: modules, their imports, and what names stand for."""

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

N = TypeVar("N", bound=ast.AST)
SOURCE = Path(__file__).parents[2] / "src" / "horae"


@dataclass(frozen=True)
class Import:
    line: int
    name: str  # dotted: `from horae.core import jobs` is "horae.core.jobs.job"
    is_relative: bool = False


class Module:
    """One source file. `place` is its path below the package, with slashes: "core/jobs/job.py"."""

    def __init__(self, path: Path, source: Path) -> None:
        self.place = path.relative_to(source).as_posix()
        self.floor = self.place.split("/")[0].removesuffix(".py")
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Parse on first use: a rule that looks at the text first spares most files."""
        return ast.parse(self.text, filename=self.place)

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[Any]]:
        """Walk the tree once for all rules."""
        nodes: dict[type[ast.AST], list[Any]] = defaultdict(list)
        for node in ast.walk(self.tree):
            nodes[type(node)].append(node)
        return nodes

    def every(self, kind: type[N]) -> list[N]:
        """Return every node of one kind, as `ast.walk` finds them."""
        return self._by_kind.get(kind, [])

    @cached_property
    def imports(self) -> list[Import]:
        """Every import, also inside functions, under TYPE_CHECKING, and by a string given to import_module."""
        found = [Import(node.lineno, alias.name) for node in self.every(ast.Import) for alias in node.names]
        found += [
            Import(node.lineno, f"{node.module or ''}.{alias.name}".strip("."), node.level > 0)
            for node in self.every(ast.ImportFrom)
            for alias in node.names
        ]
        for call in self.every(ast.Call):
            match call:
                case ast.Call(
                    func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    found.append(Import(call.lineno, name))
        return found

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What an imported name stands for: {"dt": "datetime", "sleep": "asyncio.sleep"}."""
        names: dict[str, str] = {}
        for node in self.every(ast.Import):
            for alias in node.names:
                package = alias.name.split(".")[0]
                names[alias.asname or package] = alias.name if alias.asname else package
        for each in self.every(ast.ImportFrom):
            if not each.level:
                names |= {alias.asname or alias.name: f"{each.module}.{alias.name}" for alias in each.names}
        return names

    @cached_property
    def names_used(self) -> list[tuple[ast.expr, str]]:
        """Every name or attribute that is read, written out in full: (node, "datetime.datetime.now")."""
        nodes: list[ast.expr] = [*self.every(ast.Name), *self.every(ast.Attribute)]
        return [(node, name) for node in nodes if (name := self.full_name(node))]

    def full_name(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and (owner := self.full_name(node.value)):
            return f"{owner}.{node.attr}"
        return None


def modules(source: Path = SOURCE) -> list[Module]:
    return [_module(path, source, path.stat().st_mtime_ns) for path in sorted(source.rglob("*.py"))]


@cache
def _module(path: Path, source: Path, _changed_at: int) -> Module:
    """Read once for all rules: parsing the whole house takes seconds."""
    return Module(path, source)
