"""What commands share: options, reading files and settings by them, and where they print."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from densirank import Interactions, read
from densirank.data.catalogue import PUBLIC_SETS, load_public
from densirank.distributed.group import World
from densirank.distributed.portions import Portion
from densirank.errors import InputError
from densirank.partition.reading import Partition, is_partition
from densirank.settings import KEYS, SettingOverrides, parse_settings

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

out = Console(soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file of interactions, a partition, or a public set's name."
    ),
]
MethodOption = Annotated[str, typer.Option(help="See 'densirank methods'.")]
ValidSplitOption = Annotated[
    str | None,
    typer.Option(
        metavar="last|random",
        help="Which items are held out. Default: the last ones where an order is known.",
    ),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help=f"Change a setting: {', '.join(KEYS)}."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
PrecisionOption = Annotated[
    str, typer.Option(help="auto, half or float32: half is for a GPU's tensor cores.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Same seed, same result (on a CPU).")]
OrderedOption = Annotated[
    bool, typer.Option("--ordered", help="The rows of the file stand in order of time.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the named public sets.", envvar="DENSIRANK_DATA"),
]
UserColumn = Annotated[str | None, typer.Option(help="Name of the user column.")]
ItemColumn = Annotated[str | None, typer.Option(help="Name of the item column.")]
TimestampColumn = Annotated[str | None, typer.Option(help="Name of the timestamp column.")]
WeightColumn = Annotated[str | None, typer.Option(help="Name of the weight column.")]
FormatOption = Annotated[
    str | None,
    typer.Option(help="text, csv, tsv, parquet, jsonl or inter, whatever the file's name says."),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a fitted model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True)
class Source:
    """How the files of one command are to be read."""

    data_dir: Path | None
    options: dict[str, Any]

    def interactions(
        self, source: str, part: Literal["train", "test"], world: World | None = None
    ) -> Interactions:
        """A file, or the part of a named public set that the command is about.

        Of a partition, a process reads only its own portion where there is a world to share it.
        """
        if source in PUBLIC_SETS and not Path(source).exists():
            return load_public(source, part, self.data_dir)
        if is_partition(Path(source)):
            partition = Partition.open(Path(source))
            if world is not None and world.together:
                return Portion.read(partition, world)
            return partition.whole()
        return read(source, allow_empty_users=part == "test", **self.options)


def training_source(
    *,
    ordered: OrderedOption = False,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    timestamp_column: TimestampColumn = None,
    weight_column: WeightColumn = None,
    format: FormatOption = None,
    data_dir: DataDirOption = None,
) -> Source:
    """How the file of a command that trains is to be read."""
    return Source(
        data_dir,
        {
            "user_column": user_column,
            "item_column": item_column,
            "timestamp_column": timestamp_column,
            "weight_column": weight_column,
            "format": format,
            "ordered": True if ordered else None,
        },
    )


def reading_by_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an argument ``source``, as one with the options of :func:`training_source`."""
    own, options = (
        signature(function, eval_str=True).parameters for function in (command, training_source)
    )

    @wraps(command)
    def with_options(**given: Any) -> None:
        source = training_source(**{name: given.pop(name) for name in options})
        command(**given, source=source)

    asked = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in (*own.values(), *options.values())
        if parameter.name != "source"
    ]
    with_options.__signature__ = Signature(asked)  # type: ignore[attr-defined]
    with_options.__annotations__ = {option.name: option.annotation for option in asked}
    return with_options


def settings_from(config: Path | None, assignments: list[str]) -> SettingOverrides:
    """The config file's settings with those of ``--set`` on top."""
    texts = {} if config is None else toml_from(config)
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, not {assignment!r}")
        texts[key.strip()] = value.strip()
    return parse_settings(texts)


def toml_from(path: Path) -> dict[str, Any]:
    """What a TOML file holds."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error


def say_error(sentence: str) -> None:
    """Tell what went wrong, also where the rest of what is said is another process's part."""
    err.quiet = False
    err.print(Text.assemble(("error:", "bold red"), " ", sentence), soft_wrap=True)


def say_warning(sentence: str) -> None:
    """Tell what may not be meant."""
    err.print(Text.assemble(("warning:", "bold yellow"), " ", sentence), soft_wrap=True)


def choice(option: str, value: str | None, choices: tuple[str, ...]) -> Any:
    """The value of an option that has few."""
    if value is not None and value not in choices:
        raise InputError(f"{option} is {' or '.join(choices)}, not {value!r}")
    return value
