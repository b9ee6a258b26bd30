"""``evolving-attention doctor``: prints the findings of the module ``diagnosis``."""

from __future__ import annotations

from typing import Any

import typer

from evolving_attention.cli.common import (
    ExitCode,
    console,
    guarded,
    json_output,
    print_json,
)


@guarded
def run(*, as_json: bool, run_self_test: bool = True) -> None:
    """Collect and print the report; exit with 0, 1 (a check failed) or 5 (no core)."""
    from evolving_attention.diagnosis import doctor

    with json_output(as_json):
        report = doctor(run_self_test=run_self_test)
        if as_json:
            print_json(report)
        else:
            _print(report)
    if not report["ok"]:
        missing = "error" in report["core"]
        raise typer.Exit(int(ExitCode.BACKEND if missing else ExitCode.FAILED_CHECK))


def size(count: int | None) -> str:
    """Formats a number of bytes: ``15.6 GiB``."""
    if count is None:
        return "unknown"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(report):
        table.add_row(name, Text(value))
    out = console()
    out.print(table)
    out.print()
    checks = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    checks.add_column(no_wrap=True)
    checks.add_column()
    checks.add_column(overflow="fold", style="dim")
    for check in report["checks"]:
        word = Text("ok", "green") if check["ok"] else Text("FAILED", "bold red")
        seconds = f" ({check['seconds']:.2f} s)" if "seconds" in check else ""
        checks.add_row(word, check["name"], Text(check["detail"] + seconds))
    out.print(checks)


def _lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the report as pairs of name and value, in reading order."""
    package, system, core = report["package"], report["system"], report["core"]
    limit, variables = system["memory_limit"], system["variables"].items()
    lines = [
        (
            "evolving-attention",
            f"{package['evolving-attention'] or 'not installed'}"
            f" in {package['location']}",
        ),
        ("Python", f"{package['python']} ({package['executable']})"),
        ("libraries", _versions(report["libraries"])),
        ("optional", _optional(report["optional"])),
        ("system", f"{system['platform']}"),
        (
            "memory",
            f"{size(system['memory_available'])} available of "
            f"{size(system['memory_total'])}"
            + (f"; tensors may take {size(limit)}" if limit else ""),
        ),
        ("variables", ", ".join(f"{k}={v}" for k, v in variables) or "none"),
    ]
    if "error" in core:
        lines.append(("core", f"not loaded: {core['error']}"))
    else:
        lines += _core_lines(core, system)
    runtimes = [f"{r['kind']}: {r['path']}" for r in report["runtimes"]]
    lines.append(("loaded runtimes", "\n".join(runtimes) or "none"))
    cuda = report["cuda"]
    found = ", ".join(cuda["found"]) or f"none of {len(cuda['looked_for'])} usual files"
    smi = cuda["nvidia_smi"] or "no nvidia-smi"
    state = "usable" if cuda["available"] else f"absent: {cuda['reason']}"
    usable = report["devices"]["usable"].items()
    named = "\n".join(f"{name}: {what}" for name, what in usable)
    lines.append(("devices", named or "none"))
    lines.append(("CUDA", f"{state}; found on disk: {found}; {smi}"))
    if cuda["available"]:
        lines.append(("NCCL (several GPUs)", cuda["nccl"]))
    for disk in report["disk"]:
        lines.append((disk["what"], f"{size(disk['free'])} free on {disk['path']}"))
    return lines


def _core_lines(core: dict[str, Any], system: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("CPU", f"{core.get('cpu_name', 'unknown')}"),
        (
            "instruction sets",
            f"found {_listed(core.get('isa_found'))}; "
            f"used {_listed(core.get('isa_used'))}",
        ),
        (
            "threads",
            f"{core.get('num_threads')} of {system['cpus_usable']} usable CPUs",
        ),
        ("oneDNN", f"{core.get('onednn_version')}, {core.get('onednn_isa')}"),
        ("compiler", f"{core.get('compiler')}"),
    ]


def _listed(value: Any) -> str:
    return (
        ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    )


def _versions(versions: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {v or 'MISSING'}" for name, v in versions.items())


def _optional(optional: dict[str, dict[str, Any]]) -> str:
    return ", ".join(
        f"{name} {entry['version'] or 'not installed'}"
        for name, entry in optional.items()
    )
