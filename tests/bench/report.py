"""From measured values to the table: comparisons, and what they were measured on and with."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from pathlib import Path

from targets import target_of


def spread(values: list[float]) -> dict[str, float]:
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "first_quartile": first, "third_quartile": third, "min": min(values), "max": max(values)}


def compare(measured: dict) -> list[dict]:
    """A measured row as comparisons with each of its peers; the first side is ddpcache."""
    ours, *peers = measured["sides"]
    own_values = measured["sides"][ours]
    result = []
    for peer in peers or [""]:
        target = target_of(measured["row"], peer)
        peer_values = measured["sides"].get(peer)
        pairs = zip(own_values, peer_values or own_values, strict=True)
        ratios = [target.ratio(a, b) for a, b in pairs] if peer_values else own_values
        judged = spread(ratios)
        result.append(
            {
                "row": measured["row"],
                "peer": peer,
                "unit": measured["unit"],
                "ddpcache": spread(own_values) | {"values": own_values},
                "peer_values": spread(peer_values) | {"values": peer_values} if peer_values else None,
                "judged": judged | {"kind": target.kind, "values": ratios},
                "target": str(target),
                "met": target.met(judged["median"]),
                "facts": measured["facts"],
            }
        )
    return result


def short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def table(comparisons: list[dict]) -> list[str]:
    lines = [
        "| | ddpcache | compared with | | ratio (quartiles) | target | |",
        "|---|--:|---|--:|--:|--:|---|",
    ]
    for comparison in comparisons:
        judged, peer = comparison["judged"], comparison["peer_values"]
        unit = comparison["unit"]
        suffix = "×" if peer and judged["kind"] != "value" else ""
        cells = [
            comparison["row"],
            f"{short(comparison['ddpcache']['median'])} {unit}",
            comparison["peer"] or "–",
            f"{short(peer['median'])} {unit}" if peer else "",
            f"{short(judged['median'])}{suffix} ({short(judged['first_quartile'])}–{short(judged['third_quartile'])})",
            comparison["target"],
            {True: "met", False: "**missed**", None: ""}[comparison["met"]],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True).stdout


def first_match(pattern: str, text: str, otherwise: str = "?") -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else otherwise


def machine() -> dict[str, str]:
    lscpu = output_of("lscpu")
    model = first_match(r"^Model name: *(.*)$", lscpu)
    hypervisor = first_match(r"^Hypervisor vendor: *(.*)$", lscpu, "none")
    caches = ", ".join(f"{name} {first_match(f'^{name} cache: *(.*)$', lscpu)}" for name in ("L2", "L3"))
    gibibytes = int(first_match(r"^MemTotal: *([0-9]+)", Path("/proc/meminfo").read_text(), "0")) / 2**20
    pages = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    huge = first_match(r"\[(.*)\]", pages.read_text() if pages.exists() else "")
    return {
        "processor": f"{model}, {os.cpu_count()} cores, {caches}, hypervisor {hypervisor}",
        "memory": f"{gibibytes:.1f} GiB; huge pages of shared memory: {huge}",
        "kernel": f"{platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}",
    }


def versions(build: Path, python: Path) -> dict[str, str]:
    cache = (build / "CMakeCache.txt").read_text()
    compiler = first_match(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache)
    build_type = first_match(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache)
    flags = first_match(rf"^CMAKE_CXX_FLAGS_{build_type.upper()}:\w+=(.*)$", cache)
    names = ("ddpcache", "numpy", "torch", "stocaching")
    query = f"import importlib.metadata as m, sys; print(sys.version.split()[0], *map(m.version, {names!r}))"
    release, *found = output_of(python, "-c", query).split()
    return {
        "compiler": f"{output_of(compiler, '--version').splitlines()[0]}, {flags} ({build_type})",
        "versions": f"Python {release}, " + ", ".join(f"{n} {v}" for n, v in zip(names, found, strict=True)),
    }
