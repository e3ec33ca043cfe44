# SPDX-License-Identifier: Apache-2.0
"""What the tools that measure have in common."""

import json
import os
import pathlib


def processor():
    names = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else "processor unknown"


def machine():
    """For a figure's caption."""
    cores = len(os.sched_getaffinity(0))
    return f"{processor()}, {cores} core{'s' if cores > 1 else ''}"


def training_seconds(journal):
    """Of all steps of a run; what validations took is subtracted."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    steps = [e for e in events if "event" not in e]
    return steps[-1]["seconds"] - sum(e["seconds"] for e in events if e.get("event") == "validation" and e["step"] < steps[-1]["step"])


def write_figures(page, text):
    """Between the page's marks <!-- figures --> and <!-- end -->."""
    before, _, after = page.read_text().partition("<!-- figures -->")
    page.write_text(before + "<!-- figures -->\n" + text + "<!-- end -->" + after.partition("<!-- end -->")[2])
