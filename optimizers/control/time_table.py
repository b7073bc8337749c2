"""Where the time of batches went: a table to read."""

from collections.abc import Sequence

from optimizers.batch_time import BatchTime, StageTime


def time_rows(times: Sequence[BatchTime]) -> list[list[str]]:
    """Return the mean seconds of the last batches whose stages are those of the last, by stage.

    The first row is the head, the last one is for all stages together. Empty where nothing is
    known.
    """
    if not times:
        return []
    stages = [_name(stage) for stage in times[-1].stages]
    same_stages = [time for time in times if [_name(stage) for stage in time.stages] == stages]
    rows = [["mean of a batch, s", "tasks", *StageTime.PARTS, "together"]]
    for place, name in enumerate(stages):
        each = [time.stages[place] for time in same_stages]
        means = [_mean([getattr(stage, part) for stage in each]) for part in StageTime.PARTS]
        rows.append([name, str(each[-1].size), *means, _mean([stage.seconds for stage in each])])
    unknown = [""] * (len(StageTime.PARTS) + 1)
    triggers = [time.trigger for time in same_stages if time.trigger is not None]
    if any(triggers):
        rows.append(["trigger", *unknown, _mean(triggers)])
    rows += [
        [label, *unknown, _mean([getattr(time, label) for time in same_stages])]
        for label in ("planning", "commit", "other")
    ]
    parts = [_mean([time.parts[part] for time in same_stages]) for part in StageTime.PARTS]
    rows.append(["all", "", *parts, _mean([time.seconds for time in same_stages])])
    return rows


def _name(stage: StageTime) -> str:
    return " + ".join(stage.operators)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3f}"
