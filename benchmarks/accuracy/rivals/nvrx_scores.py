"""Which ranks NVIDIA's resiliency extension calls stragglers. Runs in its own environment.

python nvrx_scores.py FOLDER: reads FOLDER/*.json ({"sections": {name: ms by rank and step},
"kernels": the same}), prints {file stem: {"ranks": [..]} or {"error": text}}. A report is made of
every ten steps, as a job would; the scores and thresholds (0.75) are NVRx's own. Only what joins
the ranks, a minimum over them, is done here instead of by torch.distributed.
"""

import json
import statistics
import sys
from pathlib import Path

from nvidia_resiliency_ext.straggler.reporting import Report, ReportGenerator
from nvidia_resiliency_ext.straggler.statistics import Statistic

STEPS_PER_REPORT = 10


def summary(values):
    return {
        Statistic.MED: statistics.median(values),
        Statistic.AVG: statistics.fmean(values),
        Statistic.NUM: len(values),
    }


def stragglers(job):
    num_ranks = len(next(iter(job["sections"].values())))
    num_steps = len(next(iter(job["sections"].values()))[0])
    generator = ReportGenerator(["relative_perf_scores", "individual_perf_scores"])
    best = [({}, {}) for _ in range(num_ranks)]
    found = set()
    for first in range(0, num_steps, STEPS_PER_REPORT):
        chosen = slice(first, first + STEPS_PER_REPORT)
        parts = [
            [
                {name: summary(rows[rank][chosen]) for name, rows in job[part].items()}
                for rank in range(num_ranks)
            ]
            for part in ("kernels", "sections")
        ]
        found |= one_report(generator, parts, best)
    return sorted(found)


def one_report(generator, parts, best):
    """Ranks below a threshold; `best`: least medians of each rank so far, updated."""
    kernels, sections = parts
    least = [least_medians(kernels), least_medians(sections)]
    scores = {"gpu_rel": {}, "gpu_own": {}, "section_rel": {}, "section_own": {}}
    for rank, (kernel, section) in enumerate(zip(kernels, sections, strict=True)):
        for known, now in zip(best[rank], (kernel, section), strict=True):
            for name, one in now.items():
                known[name] = min(known.get(name, float("inf")), one[Statistic.MED])
        gpu, of_sections = (
            generator._compute_gpu_perf_score,
            generator._compute_sections_perf_scores,
        )
        scores["gpu_rel"][rank] = gpu(kernel, least[0])
        scores["gpu_own"][rank] = gpu(kernel, best[rank][0])
        for key, reference in (("section_rel", least[1]), ("section_own", best[rank][1])):
            for name, score in of_sections(section, reference).items():
                scores[key].setdefault(name, {})[rank] = score
    report = Report(
        scores["gpu_rel"],
        scores["section_rel"],
        scores["gpu_own"],
        scores["section_own"],
        dict.fromkeys(range(len(kernels)), ""),
        {},
        {},
        0.0,
        True,
        0,
    )
    stragglers = report.identify_stragglers()
    sets = [stragglers["straggler_gpus_relative"], stragglers["straggler_gpus_individual"]]
    sets += [*stragglers["straggler_sections_relative"].values()]
    sets += [*stragglers["straggler_sections_individual"].values()]
    return {one.rank for group in sets for one in group}


def least_medians(per_rank):
    return {name: min(one[name][Statistic.MED] for one in per_rank) for name in per_rank[0]}


def main():
    answers = {}
    for path in sorted(Path(sys.argv[1]).glob("*.json")):
        try:
            answers[path.stem] = {"ranks": stragglers(json.loads(path.read_text()))}
        except Exception as error:  # noqa: BLE001  # its errors are results
            answers[path.stem] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
