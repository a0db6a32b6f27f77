"""Puts the demo's last answer into README: `./scripts/demo && python -m benchmarks.demo_output`.

The diagnosis goes to docs/demo.json, without the path of this machine; README shows its report up
to the evidence, and the first fix. tests/examples holds README to that file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from benchmarks.record import ROOT

DIAGNOSIS = ROOT / ".demo" / "diagnosis.json"
KEPT = ROOT / "docs" / "demo.json"
SHOWN = re.compile(
    r"(<!-- output of: stoker report docs/demo\.json -->\n```text\n).*?(^```$)",
    re.DOTALL | re.MULTILINE,
)


def shortened(report: str) -> str:
    """The report up to its evidence, … and the first of its fixes."""
    answer = report.partition("\nEvidence\n")[0].rstrip()
    fixes = re.search(r"^Fixes.*?(?=\n\n|\Z)", report, re.DOTALL | re.MULTILINE)
    if fixes is None:
        raise ValueError("the report has no fixes: is it the demo's?")
    return f"{answer}\n\n…\n{fixes[0]}\n"


def main() -> int:
    """Keep the diagnosis, render it, put it into README."""
    diagnosis = json.loads(DIAGNOSIS.read_text())
    for script in (diagnosis["script"], diagnosis["profile"]["script"]):
        script["cwd"] = "."
    text = json.dumps(diagnosis, indent=1, ensure_ascii=False).replace(f"{ROOT}/", "")
    KEPT.write_text(text + "\n")
    command = [sys.executable, "-m", "stoker", "report", str(KEPT)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    readme = ROOT / "README.md"
    shown = shortened(report)
    readme.write_text(SHOWN.sub(lambda found: found[1] + shown + found[2], readme.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
