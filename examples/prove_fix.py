"""Make a fix of a diagnosis by hand, and show the gain measured beside the one promised.

    stoker doctor --json diagnosis.json train_images.py FOLDER --step-ms 80
    python prove_fix.py diagnosis.json

Runs the diagnosed script for one epoch as it is and one epoch with another --workers, in turn,
and reads the step times that the script itself prints. For train_images.py, and for the first
of the fixes that is a number of workers: others need a change of the code or the data.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

MADE_BY_WORKERS = ("overlap", "workers", "fewer-workers")


def workers_in(how):
    """The number of workers that a fix asks for, or None."""
    found = re.search(r"num_workers=(\d+)", how)
    return int(found[1]) if found else None


def step_ms(script, *changes):
    """Mean milliseconds of a step in one epoch of the script, as it prints them."""
    command = [sys.executable, *script["argv"], "--epochs", "1", *changes]
    printed = subprocess.run(
        command, cwd=script["cwd"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return float(re.search(r"([\d.]+) ms a step", printed)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("diagnosis", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()

    diagnosis = json.loads(args.diagnosis.read_text())
    fixes = diagnosis["fixes"]
    fix = next((fix for fix in fixes if fix["code"] in MADE_BY_WORKERS), None)
    workers = workers_in(fix["how"]) if fix else None
    if workers is None:
        found = ", ".join(fix["code"] for fix in fixes) or "none"
        print(f"{args.diagnosis}: no fix is a number of workers (fixes: {found}): nothing to prove")
        return

    change = f"--workers {workers}"
    print(f"fix {fixes.index(fix) + 1} of {len(fixes)}, {fix['code']}: {change}")
    print(f"{args.rounds} rounds of one epoch as it is, and one with it:")
    gains = []
    for _ in range(args.rounds):
        before = step_ms(diagnosis["script"])
        after = step_ms(diagnosis["script"], "--workers", str(workers))
        gains.append(before / after)
        print(
            f"  {before:6.1f} ms a step  ->  {after:6.1f} ms a step   {gains[-1]:.2f}x", flush=True
        )

    measured = sum(gains) / len(gains)
    print(f"gain measured: {measured:.2f}x ({min(gains):.2f} to {max(gains):.2f})")
    promise = fix["speedup"]
    if promise is None:
        print(f"gain promised: none, {fix.get('withheld') or 'the interval was too wide'}")
        return
    low, high = promise["low"], promise["high"]
    inside = "inside" if low <= measured <= high else "OUTSIDE"
    print(f"gain promised: {promise['median']:.2f}x ({low:.2f} to {high:.2f}): measured {inside}")


if __name__ == "__main__":
    main()
