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
    from densirank.data.interactions import Interactions
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
    bool, typer.Option("--ordered", help="The rows of the file are sorted by time.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the public data sets.", envvar="DENSIRANK_DATA"),
]
UserColumn = Annotated[str | None, typer.Option(help="Name of the user column.")]
ItemColumn = Annotated[str | None, typer.Option(help="Name of the item column.")]
TimestampColumn = Annotated[str | None, typer.Option(help="Name of the timestamp column.")]
WeightColumn = Annotated[str | None, typer.Option(help="Name of the weight column.")]
FormatOption = Annotated[
    FileFormat | None, typer.Option(help="Format of the file. Default: by its suffix.")
]


@dataclass(frozen=True)
class Source:
    """How the files of a command are read."""

    data_dir: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def interactions(
        self, source: str, part: Literal["train", "test"], world: World | None = None
    ) -> Interactions:
        """Read a file, a partition, or a part of a public data set.

        In a world of several processes, each reads its own portion of a partition.
        """
        from densirank import read
        from densirank.data.datasets import PUBLIC_SETS, load_public
        from densirank.parallel.partition import Partition, Portion, is_partition

        if source in PUBLIC_SETS and not Path(source).exists():
            return load_public(source, part, self.data_dir)
        if is_partition(Path(source)):
            partition = Partition.open(Path(source))
            if world is not None and world.sharded:
                return Portion.read(partition, world)
            return partition.whole()
        return read(source, allow_empty_users=part == "test", **self.options)


def training_source(
    columns: tuple[str | None, str | None, str | None, str | None],
    format: FileFormat | None,
    ordered: bool,
    data_dir: Path | None,
) -> Source:
    """How training data are read; columns: user, item, timestamp, weight."""
    names = ("user_column", "item_column", "timestamp_column", "weight_column")
    named = dict(zip(names, columns, strict=True))
    return Source(data_dir, named | {"format": format, "ordered": True if ordered else None})


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
