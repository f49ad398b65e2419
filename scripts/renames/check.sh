# check.sh WORKTREE: imports of every module, lint, contracts (fast)
cd $1; .venv/bin/ruff check -q --output-format concise src tests benchmarks examples | head -20; .venv/bin/python - <<'PY'
import pkgutil,importlib,tilewright,sys
for m in pkgutil.walk_packages(tilewright.__path__,'tilewright.'):
    if 'integrations.torch' in m.name or m.name.endswith('__main__'): continue
    try: importlib.import_module(m.name)
    except Exception as e: print(m.name, type(e).__name__, e)
from tilewright.passes.registry import all_passes
print(len(all_passes()), 'passes', [k for k,v in all_passes().items() if v.__name__.lower()!=k.replace('-','')])
PY
.venv/bin/lint-imports 2>&1 | grep -E "BROKEN|broken"
