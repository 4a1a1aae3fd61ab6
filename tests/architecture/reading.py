"""Reads the source tree the way the architecture tests need it: modules, their imports, and what names stand for."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

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
        self.tree = ast.parse(self.text, filename=str(path))

    @cached_property
    def imports(self) -> list[Import]:
        """Every import, also inside functions, under TYPE_CHECKING, and by a string given to import_module."""
        found: list[Import] = []
        for node in ast.walk(self.tree):
            match node:
                case ast.Import():
                    found += [Import(node.lineno, alias.name) for alias in node.names]
                case ast.ImportFrom(module=module, names=names, level=level):
                    found += [
                        Import(node.lineno, f"{module or ''}.{alias.name}".strip("."), level > 0) for alias in names
                    ]
                case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                    if ast.unparse(function) in ("import_module", "importlib.import_module", "__import__"):
                        found.append(Import(node.lineno, name))
        return found

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What an imported name stands for: {"dt": "datetime", "sleep": "asyncio.sleep"}."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return names

    def names_used(self) -> Iterator[tuple[ast.expr, str]]:
        """Every name or attribute that is read, written out in full: (node, "datetime.datetime.now")."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute) and (name := self.full_name(node)):
                yield node, name

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
