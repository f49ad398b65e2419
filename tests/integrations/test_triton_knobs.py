"""`triton.knobs`: hooks of launches, kinds of settings, where files are; and the errors under Triton's names.

Each test runs in its own process: the drop-in changes what `import triton` means.
"""

import subprocess
import sys
import textwrap

KERNEL = """
import numpy as np
from tilewright.integrations import triton as drop_in
drop_in.install()
import triton, triton.language as tl

def described(grid, metadata, arguments):
    return {"grid": grid, "n": arguments["n"], "warps": metadata.num_warps}

@triton.jit(launch_metadata=described)
def fills(x, n, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), n)

x, seen, runtime = np.zeros(4), [], triton.knobs.runtime
"""


def run(folder, code):
    (folder / "program.py").write_text(KERNEL + textwrap.dedent(code))
    done = subprocess.run([sys.executable, folder / "program.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hooks_of_launches(tmp_path):
    """Called around each launch while they are there, the last ones first at the end."""
    run(
        tmp_path,
        """
        fills[(2,)](x, 1, B=4)
        def enters(metadata):
            seen.append(("enter", x[0], metadata.get()))
        def leaves(metadata):
            seen.append(("exit", x[0]))
        def leaves_first(metadata):
            seen.append(("first",))
        assert not runtime.launch_enter_hook
        runtime.launch_enter_hook.add(enters)
        runtime.launch_enter_hook.add(enters)
        runtime.launch_exit_hook.add(leaves)
        runtime.launch_exit_hook.add(leaves_first)
        compiled = fills[(1, 3, 2)](x, 7, B=4)
        given = seen[0][2]
        assert given["name"] == "fills" and given["grid"] == (1, 3, 2) and given["n"] == 7
        assert [event[:2] for event in seen] == [("enter", 1.0), ("first",), ("exit", 7.0)]
        fills[(1,)](x, 8, B=4)
        assert len(seen) == 6
        compiled[(1,)](x, 9)
        assert len(seen) == 9 and seen[-3][:2] == ("enter", 8.0) and x[0] == 9
        for chain in (runtime.launch_enter_hook, runtime.launch_exit_hook):
            for hook in (enters, leaves, leaves_first):
                chain.remove(hook)
        fills[(1,)](x, 10, B=4)
        assert len(seen) == 9 and x[0] == 10
        runtime.launch_enter_hook = enters
        fills[(1,)](x, 11, B=4)
        runtime.launch_enter_hook = None
        fills[(1,)](x, 12, B=4)
        assert len(seen) == 10
        """,
    )


def test_hooks_of_loads(tmp_path):
    run(
        tmp_path,
        """
        def loads(module, function, name, group, hash):
            seen.append((module is None, name, hash))
        runtime.kernel_load_start_hook.add(loads)
        runtime.kernel_load_end_hook.add(loads)
        compiled = fills[(1,)](x, 2, B=4)
        fills[(1,)](x, 3, B=4)
        assert seen == [(True, "fills", compiled.hash), (False, "fills", compiled.hash)]
        """,
    )


def test_a_hook_prevents_a_compilation(tmp_path):
    run(
        tmp_path,
        """
        with runtime.scope():
            runtime.jit_cache_hook = lambda **given: True
            assert fills[(1,)](x, 5, B=4) is None and x[0] == 0
        assert fills[(1,)](x, 5, B=4) is not None and x[0] == 5
        """,
    )


def test_kinds_of_settings(tmp_path):
    run(
        tmp_path,
        """
        import os
        from triton import knobs
        class own_knobs(knobs.base_knobs):
            text = knobs.env_str("OWN_TEXT", "without")
            flag = knobs.env_bool("OWN_FLAG", True)
            maybe = knobs.env_opt_bool("OWN_MAYBE")
            number = knobs.env_int("OWN_NUMBER", 3)
        own = own_knobs()
        assert own.knobs == {"text": "without", "flag": True, "maybe": None, "number": 3}
        os.environ.update(OWN_FLAG="OFF", OWN_MAYBE="y", OWN_NUMBER="x")
        assert own.flag is False and own.maybe is True
        try:
            own.number
        except RuntimeError as error:
            assert "OWN_NUMBER=x: expected int" in str(error)
        knobs.propagate_env = False
        own.text = "within"
        knobs.propagate_env = True
        assert "OWN_TEXT" not in os.environ and own.copy().text == "within"
        assert own.reset().text == "without"
        knobs.refresh_knobs()
        """,
    )


def test_where_files_are(tmp_path):
    run(
        tmp_path,
        f"""
        from triton.runtime.cache import FileCacheManager, get_cache_manager, get_dump_manager
        from triton import knobs
        knobs.cache.home_dir = {str(tmp_path)!r}
        assert knobs.cache.dir == {str(tmp_path / ".triton" / "cache")!r}
        assert knobs.cache.dump_dir == {str(tmp_path / ".triton" / "dump")!r}
        files = get_cache_manager("a key")
        path = files.put("text", "name.txt", binary=False)
        assert path.startswith(knobs.cache.dir) and files.get_file("name.txt") == path
        assert get_cache_manager("a key").has_file("name.txt") and not files.has_file("other")
        files.put_group("both", {{"name.txt": path}})
        assert files.get_group("both") == {{"name.txt": path}} and files.get_group("none") is None
        assert get_dump_manager("a key").put(b"1", "ir").startswith(knobs.cache.dump_dir)
        class Own(FileCacheManager):
            pass
        knobs.cache.manager_class = Own
        assert type(get_cache_manager("a key")) is Own
        """,
    )


def test_classes_of_errors(tmp_path):
    run(
        tmp_path,
        """
        from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
        @triton.jit
        def asserts(N: tl.constexpr):
            tl.static_assert(N < 3)
            nothing  # noqa
        def raised(call):
            try:
                call()
            except Exception as error:
                return error
        held, failed = (raised(lambda: asserts[(1,)](N)) for N in (1, 3))
        assert isinstance(failed, CompileTimeAssertionFailure) and failed.__cause__ is None
        assert isinstance(held, CompilationError) and not isinstance(held, CompileTimeAssertionFailure)
        assert isinstance(raised(lambda: fills[(1,)](x, 1, B=4, C=5)), KeyError)
        tuned = triton.autotune([triton.Config({"B": 4}), triton.Config({"B": 2})], key=[])(fills)
        assert isinstance(raised(lambda: tuned[(1,)](x, 1, B=4)), ValueError)
        from triton import OutOfResources
        assert "shared memory, Required: 9, Hardware limit: 4" in str(OutOfResources(9, 4, "shared memory"))
        """,
    )


def test_a_listener_of_tuning(tmp_path):
    run(
        tmp_path,
        """
        triton.knobs.autotuning.listener = lambda **given: seen.append(given)
        tuned = triton.autotune([triton.Config({"B": 4}), triton.Config({"B": 2})], key=["n"])(fills)
        for n in (1, 1, 2):
            tuned[(1,)](x, n)
        assert len(seen) == 2 and seen[0]["fn"] is fills and len(seen[0]["configs_timings"]) == 2
        assert seen[0]["best_config"] == tuned.cache[seen[0]["key"]]
        """,
    )
