"""Source text of a launch's fast path: specialization key and native call for given classes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import constexpr, dtype
from tilewright.runtime import specialize
from tilewright.runtime.descriptors import (
    ArgumentClass,
    DescriptorKind,
    TensorDescriptor,
    TupleKind,
)
from tilewright.runtime.devices import stream_function
from tilewright.runtime.drivers import argument_guards
from tilewright.runtime.drivers.argument_guards import (
    ALIGNED,
    HIGHEST,
    MULTIPLE,
    NO_MULTIPLE,
    NOT_ONE,
    SOMEWHERE,
    UNALIGNED,
)

if TYPE_CHECKING:
    from tilewright.runtime.launch import Launcher

_PLAIN_CLASSES = (int, bool, str, type(None), dtype)


class FastPathSource:
    """Source of the key and of the native call for arguments of given classes."""

    def __init__(
        self, launcher: Launcher, classes: tuple[ArgumentClass, ...], library: str | None = None
    ) -> None:
        self.launcher = launcher
        self.library = library
        """The library of the GPU arrays among the arguments; None for a launch on the CPU."""
        self.case = classes, library
        self.possible = library != ""
        self.params = launcher.params
        self.classes = classes
        self.scope: dict[str, Any] = {
            "_tw_integer": argument_guards.of_integer, "_tw_word": argument_guards.of_word,
            "_tw_extent": argument_guards.of_extent,
        }  # fmt: skip
        self._tests: list[str] = []
        self._bases: list[str] = []
        self._unpacked: list[str] = []
        """Statements that unpack descriptors; they fail for descriptors of other ranks."""
        self._setup: list[str] = []
        self._late: list[str] = []
        """Setup statements that the key needs and the call does not."""
        self._steady: list[str] = []
        """The parts of the key that native code cannot ask for itself (`drivers.argument_guards`)."""
        self._call: list[str] = []
        self._conditions: list[str] = []
        """One expression per word of the call: the guard of its current value, the rest of the key."""
        self._addresses: list[str] = []
        self._device: str | None = None
        for p, kind in zip(self.params, classes, strict=True):
            if isinstance(kind, DescriptorKind):
                self._descriptor(p, kind)
            elif p.is_constexpr:
                self._constant(p, kind)
            elif isinstance(kind, TupleKind):
                self._tuple(p, kind)
            else:
                self._argument(p, kind)
        self._compare_classes()
        found = launcher.kernel.dependencies
        for i, guard in enumerate(found.guards):
            self._guard(i, guard)
        if found.states:
            self.scope["_tw_states_hold"] = found.states_hold
            self._tests.append("_tw_states_hold()")
        if self._device is not None:
            self._part("_tw_d")

    def _part(self, text: str) -> None:
        """A part of the key that has to be compared in Python."""
        self._steady.append(text)

    def _pass(self, word: str, condition: str = "0") -> None:
        self._call.append(word)
        self._conditions.append(condition)

    def _compare_classes(self) -> None:
        """Compare the classes of all arguments at once before using them, then those inside descriptors."""
        pairs = list(zip(self.params, self.classes, strict=True))
        described = [
            (p.index, p.name, kind) for p, kind in pairs if isinstance(kind, DescriptorKind)
        ]
        if described:
            inside = "".join(f"(_tw_b{i} := {n}.base).__class__, " for i, n, _ in described)
            self.scope["_tw_inside"] = tuple(kind.base for *_, kind in described)
            self._tests.insert(0, f"({inside}) == _tw_inside")
        if pairs:
            given = "".join(f"{p.name}.__class__, " for p in self.params)
            whole: dict[Any, type] = {DescriptorKind: TensorDescriptor, TupleKind: tuple}
            self.scope["_tw_classes"] = tuple(whole.get(type(kind), kind) for _, kind in pairs)
            self._tests.insert(0, f"({given}) == _tw_classes")

    def _descriptor(self, p: Any, kind: DescriptorKind) -> None:
        """Pass a descriptor's address, shape and strides as arguments.

        The key includes everything that `TensorDescriptor.check` depends on, so new cases are checked."""
        if p.is_constexpr or specialize.annotated_type(p) is not None:
            self.possible = False
            return
        n, i = p.name, p.index
        self._array(p, kind.base, f"_tw_b{i}")
        if not self.possible:
            return
        sizes = [f"_tw_n{i}_{d}" for d in range(kind.rank)]
        steps = [f"_tw_s{i}_{d}" for d in range(kind.rank)]
        block = [f"_tw_k{i}_{d}" for d in range(kind.rank)]
        self._bases.append(f"_tw_b{i} = {n}.base")
        self._unpacked.append(f"{', '.join(sizes)}, = {n}.shape")
        self._unpacked.append(f"{', '.join(steps)}, = {n}.strides")
        self._unpacked.append(f"{', '.join(block)}, = {n}.block_shape")
        *outer, last = steps
        for part in (*block, f"{n}.padding"):
            self._part(part)
        self._call[-1], self._conditions[-1] = f"_tw_a{i}", _address_condition(p)
        for v in sizes:
            self._pass(v, f"_tw_extent({v}, {v == sizes[-1]})")
        for v in outer:
            self._pass(v, f"_tw_extent({v})")
        self._pass(last, f"_tw_integer({last}) if {last} == 1 else _tw_extent({last})")

    def _tuple(self, p: Any, kind: TupleKind) -> None:
        """Pass the addresses of a tuple's tensors, which kernels are not specialized on."""
        if specialize.annotated_type(p) is not None:
            self.possible = False
            return
        self.scope[f"_tw_items{p.index}"] = kind.items
        self._tests.append(f"(*map(type, {p.name}),) == _tw_items{p.index}")
        self.scope["type"], self.scope["map"] = type, map
        for i, item in enumerate(kind.items):
            self._array(p, item, f"{p.name}[{i}]", f"{p.index}_{i}")
            if not self.possible:
                return
            self._conditions[-1] = f"{SOMEWHERE}"

    def _constant(self, p: Any, kind: Any) -> None:
        plain = kind in _PLAIN_CLASSES
        self._part(p.name if plain else f"_tw_constant({p.name})")

    def _argument(self, p: Any, kind: type) -> None:
        if kind in (int, float, bool) and specialize.annotated_type(p) is not None:
            self.scope[f"_tw_text{p.index}"] = lambda v: (
                self.launcher.specializer.argument(p, v).text
            )
            self._part(f"_tw_text{p.index}({p.name})")
            self._pass(p.name)
        elif kind is int:
            self._pass(p.name, self._integer(p))
        elif kind in (bool, float) or kind is type(None):
            self._pass(p.name)
        elif kind in (str, dtype):
            self._part(p.name)
            self._pass("None")
        elif kind is constexpr or issubclass(kind, specialize.KernelFunction):
            self._part(f"_tw_constant({p.name})")
            self._pass("None")
        else:
            self._array(p, kind, p.name)

    def _integer(self, p: Any) -> str:
        """The condition of an integer; that of sizes, which most are, without a call."""
        if p.do_not_specialize:
            return f"_tw_word({p.name})"
        aligned = self.launcher.specializer.align(p)
        usual = f"{NO_MULTIPLE} if {p.name} & 15 else {MULTIPLE}" if aligned else f"{NOT_ONE}"
        return f"(({usual}) if 1 < {p.name} <= {HIGHEST} else _tw_integer({p.name}, {aligned}))"

    def _array(self, p: Any, kind: type, name: str, number: Any = None) -> None:
        """Pass an array of class `kind`, the value of the expression `name`. `number`: of an item of a tuple."""
        address = f"_tw_a{p.index if number is None else number}"
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(kind, numpy.ndarray) and self.library is None:
            # a descriptor's array is passed as its address
            place = self._late if name == p.name else self._setup
            place.append(f"{address} = _tw_address({name})")
            self._address(p, name, name)
            self.scope["_tw_address"] = specialize.numpy_address_reader()
        elif kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "data_ptr"):
            self._setup.append(f"{address} = {name}.data_ptr()")
            self._address(p, name, address)
            if self.library is not None:
                self._on_device(f"{name}.get_device()")
            elif _torch_has_devices():
                self._tests.append(f"{name}.is_cpu")
            # without an address are meta tensors, which the slow path rejects, and empty ones
            self._addresses.append(f"({address} or {name}.numel() == 0 and not {name}.is_meta)")
        elif kind.__module__.partition(".")[0] == "cupy" and self.library is not None:
            self._setup.append(f"{address} = {name}.data.ptr")
            self._address(p, name, address)
            self._on_device(f"{name}.data.device_id")
            self._addresses.append(address)
        else:
            self.possible = False

    def _address(self, p: Any, name: str, passed: str) -> None:
        aligned = self.launcher.specializer.align(p)
        self._part(f"{name}.dtype")
        self._pass(passed, _address_condition(p) if aligned else f"{SOMEWHERE}")

    def _on_device(self, device: str) -> None:
        """All arrays are on the device of the first one, which is a GPU."""
        if self._device is None:
            self._device = device
            self._tests.append(f"(_tw_d := {device}) >= 0")
            if self.library is not None:
                self.scope["_tw_stream"] = stream_function(self.library)
        else:
            self._tests.append(f"{device} == _tw_d")

    def _guard(self, i: int, guard: Any) -> None:
        self.scope[f"_tw_h{i}"], self.scope[f"_tw_v{i}"] = guard.holder, guard.value
        first = f"_tw_h{i}.get({guard.path[0]!r})" if isinstance(guard.holder, dict) else (
            f"_tw_h{i}.cell_contents"
        )  # fmt: skip
        rest = "".join(f".{name}" for name in guard.path[1:])
        same = f"{first}{rest} is _tw_v{i}"
        if guard.equal:
            self.scope[f"_tw_g{i}"] = guard.holds
            same = f"_tw_g{i}()"
        self._tests.append(same)

    def setup(self, indent: str) -> str:
        """Statements that make the key's parts."""
        device = [] if self._device is None else [f"_tw_d = {self._device}"]
        lines = (*self._bases, *device, *self._unpacked, *self._setup, *self._late)
        return "".join(f"{indent}{line}\n" for line in lines)

    def steady(self) -> str:
        """The expression of the part of the key that Python has to compare: a tuple."""
        return f"({''.join(part + ', ' for part in self._steady)})"

    def conditions(self) -> str:
        """The expression of the conditions for the rest of it: a tuple."""
        return f"({''.join(part + ', ' for part in self._conditions)})"

    def key(self) -> str:
        """The key's expression: a tuple."""
        return f"({''.join(part + ', ' for part in (*self._steady, *self._conditions))})"

    def _launch(self, entry: str) -> list[str]:
        """Statements that launch `entry`, (call, compiled kernel), and return if that worked."""
        names = ", ".join(f"{p.name!r}: {p.name}" for p in self.params)
        stream = "" if self.library is None else ", _tw_stream(_tw_d)"
        return [
            "if _tw_grid.__class__ is not tuple:",
            "    if _tw_callable(_tw_grid):",
            f"        _tw_grid = _tw_grid({{{names}}})",
            "    if _tw_grid.__class__ is not tuple:",
            "        _tw_grid = _tw_extents(_tw_grid)",
            f"_tw_r = {entry}[0](_tw_grid{stream}{''.join(', ' + c for c in self._call)})",
            "if _tw_r is None:",
            f"    return {entry}[1]",
            "if _tw_r.__class__ is tuple:",
            f"    return _tw_report({entry}, _tw_r, _tw_grid, ({''.join(f'{p.name}, ' for p in self.params)}))",
        ]

    def _guarded(self, lines: list[str]) -> list[str]:
        """`lines` after the destructuring of arguments; a missing address or another rank takes the slow path."""
        faults = ["TypeError", "ValueError"] if self._unpacked else []
        if any(".data_ptr()" in line for line in self._setup):
            # raised by torch for tensors without storage: the slow path reports it
            faults.append("RuntimeError")
        setup = [*self._unpacked, *self._setup]
        if not faults:
            return [*setup, *lines]
        return [
            "try:", *_indented(setup), f"except ({', '.join(faults)}):", "    pass",
            "else:", *_indented(lines),
        ]  # fmt: skip

    def body(self) -> str:
        """Statements of the fast path, inside the generated function's `try`.

        `_tw_last` is the last launch: `(value-independent part of the key, (guarded call, compiled kernel))`. If its
        guards fail, the complete key finds `(call, compiled kernel, last)`.
        """
        tests = [
            *self._tests,
            "not _tw_extra",
            "not warmup",
            "not _tw_hooks",
            "not _tw_launch_hooks",
            "_tw_grid is not _tw_missing",
        ]
        plain = "()" if self.library is None else "(*_tw_options.items(),)"
        options = f"{plain} if _tw_usual(_tw_options) else _tw_option_key(_tw_options)"
        usual = "" if self.library is None else "".join(
            f"{name}, " for name in self.launcher.usual_options
        )  # fmt: skip
        rest = f"{usual}({options}) if _tw_options else (), _tw_s)"
        known = ["_tw_found is not None", *self._addresses]
        lookup = [
            "_tw_same, _tw_entry = _tw_last",
            f"if {self.steady()[:-1]}{rest} == _tw_same:",
            *_indented(self._launch("_tw_entry")),
            *self._late,
            f"_tw_found = _tw_get({self.key()[:-1]}{rest})",
            f"if {' and '.join(known)}:",
            "    _tw_last = _tw_found[2]",
            *_indented(self._launch("_tw_found")),
        ]
        lines = [
            f"if {' and '.join(tests)}:",
            "    _tw_s = None if _tw_plain(_tw_names) else _tw_settings()",
            "    if _tw_s is None or not (_tw_s[0] or _tw_s[1]):",
            *_indented(_indented(self._guarded(lookup))),
        ]
        return "\n".join(_indented(_indented(lines)))


def _address_condition(p: Any) -> str:
    return f"({UNALIGNED} if _tw_a{p.index} & 15 else {ALIGNED})"


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _torch_has_devices() -> bool:
    torch = sys.modules.get("torch")
    version = getattr(torch, "version", None)
    return any(getattr(version, name, None) for name in ("cuda", "hip", "xpu"))
