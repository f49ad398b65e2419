"""LLVM IR of host code: functions of `language`, and all that they call, as the text of one module."""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilewright.runtime.native.body import Body
from tilewright.runtime.native.kinds import KINDS, PTR, VOID, HostCodeError, Kind, Signature, Value
from tilewright.runtime.native.language import External


def llvm_ir(
    *roots: Callable[..., Any],
    source: str = "",
    names: Mapping[str, Any] | None = None,
    machine: str = "",
    instead: Mapping[Callable[..., Any], Any] | None = None,
    constants: Mapping[str, int] | None = None,
) -> str:
    """A module that exports `roots`, a function given as `source` that may use `names`, and the variables of all.

    `machine` as `platform.machine()` says; `instead` has functions for others, where a system needs them, and
    `constants` integers that only the caller knows.
    """
    module = Module(roots, machine, instead or {}, constants or {})
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            module.define(node.name, node, names or {}, exported=True)
    for root in roots:
        module.function(root)
    return module.text


@functools.cache
def _functions(file_module: str) -> dict[str, ast.FunctionDef]:
    """The definitions at the top of a Python module."""
    tree = ast.parse(inspect.getsource(sys.modules[file_module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


class Module:
    """Text of a module while it is made."""

    def __init__(
        self,
        roots: Sequence[Callable[..., Any]],
        machine: str,
        instead: Mapping[Callable[..., Any], Any],
        constants: Mapping[str, int],
    ) -> None:
        self._roots, self.machine = roots, machine
        self._instead, self._constants = instead, constants
        self._made: dict[Any, Signature] = {}
        self._strings: dict[str, str] = {}
        self._parts: dict[str, str] = {}

    @property
    def text(self) -> str:
        return "\n".join(self._parts.values())

    def function(self, function: Any) -> Signature:
        """A function's signature; it is in the module from then on."""
        function = self._instead.get(function, function)
        if function not in self._made:
            if isinstance(function, External):
                self._made[function] = self._external(function)
            else:
                node = _functions(function.__module__)[function.__name__]
                self.define(function, node, function.__globals__, function in self._roots)
        return self._made[function]

    def define(
        self, key: Any, node: ast.FunctionDef, names: Mapping[str, Any], exported: bool
    ) -> None:
        """Add a function of the language."""
        last = node.body[-1]
        stub = (
            isinstance(last, ast.Expr)
            and isinstance(last.value, ast.Constant)
            and last.value.value is ...
        )
        symbol = node.name if stub or exported else f"tw.{node.name}"
        if node.name.startswith("llvm_"):
            symbol = node.name.replace("_", ".")
        parameters = tuple((a.arg, self.kind(a.annotation, names)) for a in node.args.args)
        kinds = tuple(kind for _, kind in parameters)
        returns = self.kind(node.returns, names)
        signature = Signature(f'@"{symbol}"', returns, kinds, node.args.vararg is not None)
        self._made[key] = signature
        if stub:
            self._parts[symbol] = signature.declaration
            return
        linkage = "" if exported else "internal "
        listed = ", ".join(f"{kind.llvm} %{name}" for name, kind in parameters)
        body = Body(self, names, parameters, returns)
        try:
            body.block(node.body)
        except (HostCodeError, KeyError) as error:
            raise HostCodeError(f"{symbol}, line {body.line}: {error}") from error
        self._parts[symbol] = (
            f'define {linkage}{returns.llvm} @"{symbol}"({listed}) nounwind {{\n{body.text}}}\n'
        )

    def _external(self, function: External) -> Signature:
        kinds = tuple(KINDS[name] for name in function.parameters or ())
        returns = VOID if function.returns == "void" else KINDS[function.returns]
        signature = Signature(f'@"{function.symbol}"', returns, kinds)
        self._parts[function.symbol] = function.text or signature.declaration
        return signature

    def declare(self, signature: Signature) -> None:
        """Add a function of LLVM's."""
        self._parts[signature.symbol] = signature.declaration

    def kind(self, annotation: ast.expr | None, names: Mapping[str, Any]) -> Kind:
        """The type that an annotation names."""
        if annotation is None or isinstance(annotation, ast.Constant):
            return VOID
        name = annotation.id if isinstance(annotation, ast.Name) else ""
        return KINDS[name] if name in KINDS else Kind("ptr", names[name])

    def constant(self, name: str, names: Mapping[str, Any]) -> Value:
        """The value of a name that is no variable of its function."""
        found = self._constants.get(name, names.get(name))
        if isinstance(found, (bool, int)):
            return Value(None, str(int(found)))
        if isinstance(found, str):
            return Value(PTR, self.string(found))
        if isinstance(found, ctypes.Structure):
            words = ctypes.sizeof(found) // 8
            self._parts[name] = f"@{name} = global [{words} x i64] zeroinitializer, align 64"
            return Value(Kind("ptr", type(found)), f"@{name}")
        if isinstance(found, External) and found.parameters is None:
            self._parts[found.symbol] = f"@{found.symbol} = external global ptr"
            return Value(Kind("ptr", PTR), f"@{found.symbol}")
        if isinstance(found, (External, FunctionType)):
            return Value(PTR, self.function(found).symbol)
        raise HostCodeError(f"there is no '{name}'")

    def string(self, text: str) -> str:
        """The address of a constant C string."""
        if text not in self._strings:
            data = text.encode() + b"\0"
            escaped = "".join(f"\\{byte:02x}" for byte in data)
            symbol = self._strings[text] = f"@text.{len(self._strings)}"
            self._parts[symbol] = f'{symbol} = internal constant [{len(data)} x i8] c"{escaped}"'
        return self._strings[text]
