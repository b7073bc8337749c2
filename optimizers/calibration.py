"""The measured costs of a transport, as a document that planning uses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batching.calibration import Fit
from batching.stages import StageCosts
from optimizers.documents import Record, read, write
from optimizers.errors import InvalidValueError
from sketches.checks import amount, whole

ROW = "row"
"""The constant that counts rows: seconds of a core to take one in, without the work done on it."""


@dataclass(frozen=True)
class Calibration:
    """Measured constants of a micro-batch on one engine and machine, with their error.

    Attributes:
        transport: between what rows were sent: "spark" or "in-process".
        where: where it was measured, in words.
        cores: how many tasks ran at a time.
        fit: the constants, the range in which they were measured, and their error on settings that
            were left out.
        spread: by what share batches of one setting differed, from the shortest to the longest;
            the median over settings.
        batches: how many batches were measured.
    """

    transport: str
    where: str
    cores: int
    fit: Fit
    spread: float
    batches: int

    def __post_init__(self) -> None:
        whole("cores", self.cores, at_least=1)
        whole("batches", self.batches, at_least=1)
        object.__setattr__(self, "spread", amount("spread", self.spread))

    @property
    def costs(self) -> StageCosts:
        """The constants of the model of a batch, without that of a row."""
        return self.fit.stage_costs(beside=(ROW,))

    @property
    def row(self) -> float:
        """The seconds of a core for a row that an operator takes in; 0 if that was not measured."""
        known = dict(zip(self.fit.names, self.fit.constants.tolist(), strict=True))
        return float(known.get(ROW, 0.0))

    def to_json(self) -> str:
        """Write it as a JSON document."""
        fit = self.fit
        body: dict[str, Any] = {
            "transport": self.transport,
            "where": self.where,
            "cores": self.cores,
            "names": list(fit.names),
            "constants": fit.constants.tolist(),
            "lowest": fit.lowest.tolist(),
            "highest": fit.highest.tolist(),
            "error": fit.error,
            "worst": fit.worst,
            "spread": self.spread,
            "batches": self.batches,
        }
        return write("calibration", body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Calibration":
        """Read what `to_json` wrote."""
        return read(text, "calibration", cls._from_record)

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """Read the document of a file, as `penstock calibrate --json` writes it."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise InvalidValueError(
                f"{str(path)!r} cannot be read ({error.strerror}); write a calibration with "
                "`penstock calibrate --json FILE`"
            ) from error
        return cls.from_json(text)

    @classmethod
    def _from_record(cls, record: Record) -> "Calibration":
        names = record.strings("names")
        columns = {
            name: np.array(record.floats(name)) for name in ("constants", "lowest", "highest")
        }
        for name, column in columns.items():
            if column.shape != (len(names),) or not (np.isfinite(column) & (column >= 0)).all():
                raise InvalidValueError(
                    f"{name}={column.tolist()} do not fit {len(names)} constants; give a number "
                    "for each, none negative"
                )
        fit = Fit(
            names,
            **columns,
            error=amount("error", record.take("error", float)),
            worst=amount("worst", record.take("worst", float)),
        )
        return cls(
            record.take("transport", str),
            record.take("where", str),
            record.take("cores", int),
            fit,
            record.take("spread", float),
            record.take("batches", int),
        )
