"""The plot that compares policies: gas against misses, and the time to detection."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.model.arrays import FloatArray
from holdfast.sim.measures import WITHIN, Measures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")

# Okabe and Ito's colours, which colour-blind people can distinguish; marks and lines help too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = "osD^vPX*"
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
QUIET = "#666666"

# A policy has the colour and the mark of its place here in all figures.
POLICIES = (
    *("fixed-high", "drqn-cmdp", "drqn-cmdp-plus", "belief", "heuristic", "bayesian", "fixed-low"),
    *("clairvoyant", "oracle", "dqn", "double-dqn", "dueling-dqn", "d3qn", "ppo", "a2c"),
    *("ppo-lagrangian", "recurrent-ppo-lagrangian", "pid-lagrangian", "focops", "r2d2"),
    *("two-speed", "daily-5", "sample-460"),
)
OTHERS = len(COLOURS) * len(MARKS) - len(POLICIES)  # pairs of colour and mark that are left


def check_can_draw(path: Path) -> None:
    """Raise an error before any work is done if the plot can't be drawn or written."""
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise InputError(f"{path} must end in .svg or .png")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder: {path.name} can't be written there")
    if find_spec("matplotlib") is None:
        raise InputError("plots need matplotlib: install it with pip install 'holdfast[plot]'")


def draw(results: Mapping[str, tuple[Measures, FloatArray]], title: str, path: Path) -> None:
    """Draw each policy's measures and its share of events still undetected by unit."""
    check_can_draw(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
    from matplotlib.lines import Line2D  # noqa: PLC0415

    with house_style():
        figure = Figure(figsize=(10, 4.8), layout="constrained")
        plane, curve = figure.subplots(1, 2)
        styles = style_numbers(results)
        _draw_plane(plane, [measures for measures, _ in results.values()], styles)
        _draw_curve(curve, [shares for _, shares in results.values()], styles)
        figure.suptitle(title, fontsize=12)
        keys = [
            Line2D([], [], label=name, **key(style))
            for name, style in zip(results, styles, strict=True)
        ]
        rows = -(-len(keys) // 5)
        figure.legend(
            handles=keys,
            loc="outside lower center",
            ncols=-(-len(keys) // rows),
            frameon=False,
            handlelength=3,
        )
        save(figure, path)


@contextmanager
def house_style() -> Iterator[None]:
    """Use our style for plots drawn and saved inside; equal plots give equal files."""
    from matplotlib import rc_context  # noqa: PLC0415 - an optional extra

    with rc_context({"svg.hashsalt": "holdfast", "font.size": 10, "axes.axisbelow": True}):
        yield


def save(figure: "Figure", path: Path) -> None:
    kind = path.suffix.removeprefix(".").lower()
    # Without a date, equal plots give equal files.
    metadata = {"Date": None} if kind == "svg" else None
    with atomic.replacing(path) as draft:
        figure.savefig(draft, format=kind, dpi=150, metadata=metadata)


def _draw_plane(axes: "Axes", measures: Sequence[Measures], styles: Sequence[int]) -> None:
    for measure, style in zip(measures, styles, strict=True):
        gas, miss = measure.gas, measure.miss_rate
        axes.errorbar(
            gas.value,
            100 * miss.value,
            xerr=[[gas.value - gas.low], [gas.high - gas.value]],
            yerr=[[100 * (miss.value - miss.low)], [100 * (miss.high - miss.value)]],
            capsize=3,
            elinewidth=1,
            **key(style) | {"linestyle": "none"},
        )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    label_decades(axes, [measure.gas.value for measure in measures])
    axes.set_xlabel("gas per episode")
    axes.set_ylabel("miss rate (%)")
    axes.set_title("Cost and safety: lower left is better", fontsize=10, color=QUIET)
    tidy(axes)


def label_decades(axes: "Axes", values: Sequence[float]) -> None:
    """Put 1, 2 and 5 of each decade on the axis, without exponents."""
    low, high = min(values) / 1.6, max(values) * 1.6
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [lead * 10.0**decade for decade in decades for lead in (1, 2, 5)]
    axes.set_xlim(low, high)
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:g}")


def _draw_curve(axes: "Axes", shares: Sequence[FloatArray], styles: Sequence[int]) -> None:
    slowest = max(int(np.count_nonzero(curve >= 0.01)) for curve in shares)
    reach = max(max(WITHIN) + 2, min(slowest, 120))
    units = np.arange(reach + 1)
    for curve, style in zip(shares, styles, strict=True):
        known = curve[np.minimum(units, len(curve) - 1)]
        axes.step(units, 100 * known, where="post", **key(style) | {"marker": ""})
    axes.set_xlim(0, reach)
    axes.set_ylim(0, 102)
    axes.set_xticks([0, *WITHIN, *range(60, reach + 1, 30)])
    axes.set_xlabel("time units since the true onset")
    axes.set_ylabel("corruption events still undetected (%)")
    axes.set_title("Time to detection: lower is better", fontsize=10, color=QUIET)
    tidy(axes)


def style_numbers(names: Iterable[str]) -> list[int]:
    """Return the number of each policy's style: its own in all figures, and none twice in one.

    The first with a name that is known, whatever its options, has that policy's style. Others have
    one that depends on their name, or the next that is free.
    """
    numbers: list[int] = []
    for name in names:
        policy = re.split("[:@,]", name)[0].strip()
        number = POLICIES.index(policy) if policy in POLICIES else -1
        if number < 0 or number in numbers:
            first = crc32(name.encode())
            others = [len(POLICIES) + (first + k) % OTHERS for k in range(OTHERS)]
            number = next((other for other in others if other not in numbers), others[0])
        numbers.append(number)
    return numbers


def key(number: int) -> dict[str, Any]:
    """Return the style with this number; `style_numbers` says which a policy has."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[number % len(MARKS)],
        "linestyle": LINES[number % len(LINES)],
        "linewidth": 1.8,
        "markersize": 8,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
    }


def tidy(axes: "Axes") -> None:
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999")
