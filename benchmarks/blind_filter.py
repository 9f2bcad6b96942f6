"""Test metrics of the item filter alone, without the order of time, on the public sets.

    python benchmarks/blind_filter.py --json benchmarks/records/blind-filter.json

The same filter with the order of time is a row of ``time_to_quality.py``. The weight relative to
popularity is that of this row; there are no other settings to choose.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from densirank import Ranker
from densirank.data.datasets import load_public
from measuring import environment
from time_to_quality import FILTER_ALONE

DATASETS = ("gowalla", "yelp2018")
BLIND: dict[str, Any] = {"filter_weight": FILTER_ALONE["filter_weight"]}


def main() -> None:
    """Fit and test on each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {}
    for name in DATASETS:
        train, test = (load_public(name, part, given.data_dir) for part in ("train", "test"))
        metrics = Ranker("popularity", device="cpu", **BLIND).fit(train).evaluate(test, 20)
        found[name] = {key: metrics[key] for key in ("recall@20", "ndcg@20")}
        print(name, found[name])
    if given.json is not None:
        record = {
            "command": shlex.join(sys.argv),
            **environment("cpu"),
            "settings": {"method": "popularity", **BLIND},
            "found": found,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
