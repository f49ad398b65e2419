"""Search around the model's choice of a matmul configuration, and tables of the results (`generator/tuned`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.errors import LaunchError
from tilewright.generator import tuning
from tilewright.generator.config import MatmulConfig
from tilewright.generator.model import Tiling, Workload, choose
from tilewright.targets import TargetInfo

#: candidates of other tiles that are tried
_MAX_ALTERNATIVES = 7


@dataclass(frozen=True)
class Tuned:
    """A search's result: times in milliseconds by configuration, the model's first."""

    model: MatmulConfig
    best: MatmulConfig
    times: tuple[tuple[MatmulConfig, float], ...]

    def milliseconds(self, config: MatmulConfig) -> float:
        """The time of one of the configurations tried."""
        return dict(self.times)[config]

    @property
    def ratio(self) -> float:
        """The best time over the model's: 1 where the model's choice is the fastest."""
        return self.milliseconds(self.best) / self.milliseconds(self.model)


def candidates(
    work: Workload,
    target: TargetInfo,
    configure: Callable[[Tiling], MatmulConfig],
    allowed: Callable[[Tiling], bool] | None = None,
) -> list[MatmulConfig]:
    """What a search tries: the model's choice, its neighbours, and the best tilings of other tiles.

    `configure` makes a configuration of a tiling; `allowed` is `model.choose`'s.
    """
    choice = choose(work, target, allowed)
    tilings = [choice.tiling]
    seen = {_tile(choice.tiling)}
    for other in choice.others:
        if _tile(other.tiling) not in seen and len(seen) <= _MAX_ALTERNATIVES:
            seen.add(_tile(other.tiling))
            tilings.append(other.tiling)
    configs = [configure(t) for t in tilings]
    return list(dict.fromkeys([configs[0], *_neighbours(configs[0]), *configs[1:]]))


def _tile(t: Tiling) -> tuple[int, int, int]:
    return t.block_m, t.block_n, t.split_k


def _neighbours(config: MatmulConfig) -> Iterator[MatmulConfig]:
    """Other depths, groups and orders of the same tile."""
    if config.num_stages > 2:
        yield replace(config, num_stages=config.num_stages - 1)
    yield replace(config, num_stages=config.num_stages + 1)
    for group in (4, 8, 16):
        if group != config.group_m:
            yield replace(config, group_m=group)
    if config.split_k == 1:
        yield replace(config, persistent=not config.persistent, tma_multicast=False)
        if config.tma_multicast:
            yield replace(config, tma_multicast=False)
        elif config.persistent:
            yield replace(config, persistent=False, num_stages=config.num_stages + 1)
    if config.block_m * config.block_n <= 64 * 64:
        yield replace(config, block_k=2 * config.block_k, num_stages=max(1, config.num_stages // 2))


def tune(
    configs: list[MatmulConfig], measure: Callable[[list[MatmulConfig]], list[float]]
) -> Tuned:
    """Measure `configs`, the model's first.

    `measure` gives milliseconds, infinity for what cannot be built. The best four are measured once
    more together, since a first round's order matters. Raises LaunchError where nothing can be built.
    """
    times = dict(zip(configs, measure(configs), strict=True))
    ranked = sorted((c for c in configs if math.isfinite(times[c])), key=lambda c: times[c])
    if not ranked:
        raise LaunchError("none of the configurations can be built")
    finalists = ranked[:4]
    if configs[0] in ranked[4:]:
        finalists.append(configs[0])
    times.update(zip(finalists, measure(finalists), strict=True))
    best = min(finalists, key=lambda c: times[c])
    return Tuned(configs[0], best, tuple(times.items()))


def write_table(
    path: Path, target: TargetInfo, provenance: dict[str, str], results: dict[str, Tuned]
) -> None:
    """Write a table of results by `key_of`, over what the file holds of other products."""
    entries: dict[str, Any] = {}
    if path.is_file():
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
    for key, result in results.items():
        entries[key] = {
            "config": result.best.text,
            "milliseconds": round(result.milliseconds(result.best), 6),
            "model": result.model.text,
            "model_milliseconds": round(result.milliseconds(result.model), 6),
        }
    data = {"target": target.name, "cores": target.cores, "provenance": provenance}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**data, "entries": entries}, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    tuning._table.cache_clear()
