"""``evolving-attention glue-submit``: packs prediction files for the leaderboard."""

from __future__ import annotations

from pathlib import Path

from evolving_attention.cli.common import guarded, json_output, print_json
from evolving_attention.notices import note


@guarded
def run(
    *, folders: list[Path], output: Path, allow_missing: bool, as_json: bool
) -> None:
    """Collect ``predict_results_*.txt``, check row counts and labels, write the zip."""
    from evolving_attention.data.submission import build_submission

    with json_output(as_json):
        report = build_submission(folders, output, allow_missing=allow_missing)
        if as_json:
            print_json(
                {
                    "path": report.path,
                    "files": {name: str(p) for name, p in report.files.items()},
                    "missing": report.missing,
                }
            )
            return
        print(report)
        if report.missing:
            note("the leaderboard accepts an archive only if it has all files")
