"""Figures as plain SVG without a plotting library: the same bytes everywhere, and a few kilobytes each."""

import math
from collections.abc import Callable, Sequence
from html import escape

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 40
OURS, OTHERS = "#00796b", ("#d97706", "#6366f1", "#be123c", "#64748b", "#a16207", "#0284c7")


def _canvas(title: str, parts: Sequence[str], about: str) -> str:
    """A figure with its title on a light ground, so that it can be read in dark mode."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="sans-serif">',
            f"<title>{escape(title)}</title><desc>{escape(about)}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fbfbfa"/>',
            f'<text x="14" y="21" font-size="13" font-weight="bold" fill="#111">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#333", size: int = 10) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}">{escape(words)}</text>'


def lines(title: str, about: str, series: dict[str, list[float]], *, across: str, up: str, log: bool) -> str:
    """Draw curves over evaluations; the first is ours."""
    low = min(min(values) for values in series.values())
    high = max(max(values) for values in series.values())
    scale: Callable[[float], float] = math.log10 if log else float
    floor, ceiling = (math.floor(math.log10(low)), math.ceil(math.log10(high))) if log else (0.0, high)
    count = max(len(values) for values in series.values())
    label = 112  # room for the names at the right

    def place(evaluation: int, value: float) -> tuple[float, float]:
        part = (scale(value) - floor) / (ceiling - floor)
        x = LEFT + (WIDTH - LEFT - RIGHT - label) * (evaluation - 1) / (count - 1)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    parts = []
    ticks = range(int(floor), int(ceiling) + 1, max(1, int(ceiling - floor) // 5)) if log else _round_ticks(high)
    for tick in ticks:
        _, y = place(1, 10.0**tick if log else tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT - label}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 5, y + 3, f"1e{tick}" if log else f"{tick:g}", anchor="end"))
    for tick in (1, count // 4, count // 2, 3 * count // 4, count):
        x, _ = place(tick, 10.0**floor if log else 0)
        parts.append(_text(x, HEIGHT - BOTTOM + 14, str(tick), anchor="middle"))
    middle = LEFT + (WIDTH - LEFT - RIGHT - label) / 2
    parts.append(_text(middle, HEIGHT - 8, across, anchor="middle"))
    parts.append(
        f'<text transform="translate(13 {(HEIGHT + TOP - BOTTOM) / 2:.0f}) rotate(-90)" font-size="10" '
        f'text-anchor="middle" fill="#333">{escape(up)}</text>'
    )
    ends = sorted((place(count, values[-1])[1], name) for name, values in series.items())
    heights: dict[str, float] = {}
    for y, name in ends:
        heights[name] = max([y + 3, *(height + 12 for height in heights.values())])
    beyond = max(0.0, max(heights.values()) - (HEIGHT - BOTTOM + 4))
    colours = dict(zip(series, (OURS, *OTHERS), strict=False))
    for name, values in reversed(series.items()):
        points = (place(evaluation, value) for evaluation, value in enumerate(values, start=1))
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        width = 2.6 if name == next(iter(series)) else 1.4
        parts.append(f'<path d="{path}" fill="none" stroke="{colours[name]}" stroke-width="{width}"/>')
        parts.append(_text(WIDTH - RIGHT - label + 6, heights[name] - beyond, name, colour=colours[name]))
    return _canvas(title, parts, about)


def _round_ticks(high: float) -> list[float]:
    """Round numbers from 0 to about the highest value."""
    step = 10.0 ** math.floor(math.log10(high))
    step = step if high / step >= 4 else step / 2 if high / step >= 2 else step / 5
    return [step * place for place in range(int(high / step) + 1)]


def bars(
    title: str, about: str, rows: Sequence[tuple[str, float, str, bool]], *, mark: tuple[float, str] | None = None
) -> str:
    """Draw bars with their numbers: name, length, what is written beside it, whether it is ours; a mark across them."""
    name_width = 150
    room = WIDTH - name_width - RIGHT - 112
    longest = max(length for _, length, _, _ in rows)
    below = 10 if mark is None else 22
    each = (HEIGHT - TOP - below) / len(rows)
    size = 10 if each > 12 else 9
    parts = []
    for place, (name, length, words, ours) in enumerate(rows):
        y, thick = TOP + each * place, min(each * 0.7, 22)
        parts.append(_text(name_width - 6, y + thick / 2 + 3.5, name, anchor="end", size=size))
        width = max(room * length / longest, 1.0)
        colour = OURS if ours else "#b4b9bf"
        parts.append(f'<rect x="{name_width}" y="{y:.1f}" width="{width:.1f}" height="{thick:.1f}" fill="{colour}"/>')
        parts.append(_text(name_width + width + 5, y + thick / 2 + 3.5, words, size=size))
    if mark is not None:
        x = name_width + room * mark[0] / longest
        parts.append(f'<path d="M{x:.1f} {TOP - 3}V{HEIGHT - below}" stroke="#be123c" stroke-dasharray="3 2"/>')
        parts.append(_text(x, HEIGHT - 9, mark[1], anchor="middle", colour="#be123c"))
    return _canvas(title, parts, about)
