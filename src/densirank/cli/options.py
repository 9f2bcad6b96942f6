"""Options shared by commands, and the reading of files and settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from densirank.cli.printing import print_settings
from densirank.errors import InputError

if TYPE_CHECKING:
    from densirank.data.interactions import Interactions, Reading
    from densirank.world import World


Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "half", "float32"]
ValidSplit = Literal["last", "random"]
FileFormat = Literal["text", "csv", "tsv", "parquet", "jsonl", "inter"]


def explain_settings(context: typer.Context, asked: bool) -> None:
    """Print all settings and exit."""
    if asked:
        print_settings(context.params.get("method"))
        raise typer.Exit


DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file of interactions, a partition or a public set's name.",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a fitted model.")]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the model.")]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the model that the folder holds.")
]
FilterSeenOption = Annotated[
    bool,
    typer.Option(
        "--filter-seen/--no-filter-seen", help="Leave out the items that a user has in training."
    ),
]
TitlesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CSV, Parquet or JSON lines: item_id, title."),
]
UnknownOption = Annotated[
    Literal["error", "popular", "skip"],
    typer.Option(help="What users not seen in training get; skip: no list."),
]
ValidSplitOption = Annotated[
    ValidSplit | None,
    typer.Option(help="Which items are held out. Default: last if an order is known, else random."),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting; --help-settings lists them."
    ),
]
HelpSettingsOption = Annotated[
    bool,
    typer.Option(
        "--help-settings",
        callback=explain_settings,
        is_eager=True,
        help="Explain all settings, or those of the --method before it.",
    ),
]
DeviceOption = Annotated[Device, typer.Option(help="auto: the GPU if there is one.")]
PrecisionOption = Annotated[
    Precision, typer.Option(help="half uses the tensor cores of a GPU; auto: if possible.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Same seed, same result (on a CPU).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
OrderedOption = Annotated[
    bool | None,
    typer.Option(
        "--ordered/--no-ordered",
        help="Whether the rows of each user are in order of time. Default: with timestamps, and in "
        "the public data sets.",
        show_default=False,
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the public data sets.", envvar="DENSIRANK_DATA"),
]
UserColumn = Annotated[str | None, typer.Option(help="Name of the user column.")]
ItemColumn = Annotated[str | None, typer.Option(help="Name of the item column.")]
TimestampColumn = Annotated[str | None, typer.Option(help="Name of the timestamp column.")]
TimestampFormat = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="Form of dates that are not ISO 8601: %d/%m/%Y."),
]
WeightColumn = Annotated[str | None, typer.Option(help="Name of the weight column.")]
RatingColumn = Annotated[str | None, typer.Option(help="Name of the column of --min-rating.")]
MinRating = Annotated[
    float | None, typer.Option(metavar="X", help="Keep rows with a rating of at least X alone.")
]
EventColumn = Annotated[str | None, typer.Option(help="Name of the column of --event-weights.")]
EventWeights = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT=WEIGHT,…",
        help="Weight of a row by its event, 0 to leave it out: view=1,cart=3,purchase=10.",
    ),
]
FormatOption = Annotated[
    FileFormat | None, typer.Option(help="Format of the file. Default: by its suffix.")
]


@dataclass(frozen=True)
class Source:
    """How the files of a command are read: by these options of :func:`densirank.read`."""

    data_dir: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def interactions(
        self, source: str, part: Literal["train", "test"], world: World | None = None
    ) -> Interactions:
        """Read a file, a partition, or a part of a public data set.

        In a world of several processes, each reads its own portion of a partition.
        """
        from densirank import read
        from densirank.data.datasets import PUBLIC_SETS, load_public, with_known_order
        from densirank.parallel.partition import Partition, Portion, is_partition

        ordered = self.options.get("ordered")
        if source in PUBLIC_SETS and not Path(source).exists():
            self._require_no_options(f"the public set {source}")
            data = load_public(source, part, self.data_dir)
            return data if ordered is None else with_known_order(data, ordered)
        if is_partition(Path(source)):
            self._require_no_options(f"the partition {source}")
            partition = Partition.open(Path(source))
            several = world if world is not None and world.sharded else None
            data = partition.whole() if several is None else Portion.read(partition, several)
            return data if ordered is None else with_known_order(data, ordered)
        return read(source, allow_empty_users=part == "test", **self.options)

    def _require_no_options(self, what: str) -> None:
        """Refuse options of reading that cannot apply."""
        given = [
            f"--{name.replace('_', '-')}"
            for name, value in self.options.items()
            if name != "ordered" and value is not None
        ]
        if given:
            raise InputError(f"{' and '.join(given)} cannot be used with {what}")


def source_of(*, data_dir: Path | None, event_weights: str | None, **options: Any) -> Source:
    """How files are read by the options of a command, which are named as those of ``read``."""
    weights = None if event_weights is None else _event_weights(event_weights)
    return Source(data_dir, options | {"event_weights": weights})


def _event_weights(text: str) -> dict[str, float]:
    """The weights of ``view=1,cart=3``."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        event, equals, value = (word.strip() for word in part.rpartition("="))
        try:
            weight = float(value)
        except ValueError:
            weight = None
        if not event or not equals or weight is None:
            raise InputError(
                f"--event-weights takes EVENT=WEIGHT,EVENT=WEIGHT,… (view=1,purchase=10), and "
                f"{part!r} is not of that form"
            )
        if event in weights:
            raise InputError(f"--event-weights names {event!r} twice")
        weights[event] = weight
    return weights


def reading_sentence(data: Interactions, validation: str) -> str:
    """What data were read as: their columns, whether an order is known and why, the validation."""
    reading = data.reading
    assert reading is not None  # of everything that a command reads
    columns = columns_sentence(reading)
    if not reading.columns:
        others = {"time": data.timestamps, "weight": data.weights}
        there = (f", {word}={'none' if array is None else 'yes'}" for word, array in others.items())
        columns = f"Columns: user, item{''.join(there)}."
    return f"{columns} {order_sentence(reading)} Validation: {validation}."


def columns_sentence(reading: Reading) -> str:
    """Which columns were used as what, and which were not used."""
    usual = {"user": "user", "item": "item", "timestamp": "time", "weight": "weight"}
    found = dict(reading.columns)
    if "event" in found:
        found["weight"] = f"by {found['event']}"
    used = [f"{word}={found.get(role, 'none')}" for role, word in usual.items()]
    used += [f"{role}={name}" for role, name in found.items() if role not in {**usual, "event": ""}]
    unused = ", ".join(reading.unused[:SHOWN_UNUSED])
    if len(reading.unused) > SHOWN_UNUSED:
        unused += f" and {len(reading.unused) - SHOWN_UNUSED} more"
    return f"Columns: {', '.join(used)}{f'; {unused} not used' if unused else ''}."


def order_sentence(reading: Reading) -> str:
    """Whether an order of time is known, and why."""
    return f"Order: {ORDERS.get(reading.order, f'known, {reading.order}')}."


ORDERS = {
    None: "not known (say --ordered if the rows of each user are in order of time)",
    "timestamps": "known, by the timestamps",
    "said": "known, as said by --ordered",
}
"""Why an order is known, in words."""
SHOWN_UNUSED = 6
"""Unused columns in the sentence about what was read."""


def validation_of(data: Interactions, how: ValidSplit | None) -> str:
    """Which items a fraction of each user's items is, in words."""
    last = (how or ("last" if data.ordered else "random")) == "last"
    return "the last items of each user" if last else "random items of each user"


def settings_from(
    method: str, config: Path | None = None, assignments: list[str] | None = None
) -> dict[str, Any]:
    """The settings of the config file, overridden by those of ``--set``."""
    from densirank.methods import method_named

    chosen = method_named(method)
    texts = {} if config is None else toml_from(config)
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, not {assignment!r}")
        texts[key.strip()] = value.strip()
    chosen.settings_type.check_keys(texts, method)
    return chosen.settings_type.parse(texts)


def toml_from(path: Path) -> dict[str, Any]:
    """The contents of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error


def check_target(path: Path) -> None:
    """Raise an error if a file cannot be written to this path."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; the name of a file was expected")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} to")


def ids_in(text: str, option: str) -> list[str]:
    """The ids in a text, separated by commas; none is an error."""
    ids = [part.strip() for part in text.split(",") if part.strip()]
    if not ids:
        raise InputError(f"{option} takes item ids separated by commas")
    return ids
