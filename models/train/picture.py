# SPDX-License-Identifier: Apache-2.0
"""The loss curve as an SVG that reads on light and dark pages."""

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 48
STYLE = """
  text { font: 13px sans-serif; fill: #57606a }
  .grid { stroke: #57606a; stroke-opacity: 0.25 }
  .raw { fill: none; stroke: #0969da; stroke-opacity: 0.3 }
  .smooth { fill: none; stroke: #0969da; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9ea7b3 }
    .grid { stroke: #9ea7b3 }
    .raw, .smooth { stroke: #58a6ff }
  }
"""


def smoothed(values, width):
    """Mean of the last `width` values, fewer at the beginning."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[i] - sums[max(0, i - width)]) / (i - max(0, i - width)) for i in range(1, len(sums))]


def tick_step(largest, wanted=6):
    """1, 2 or 5 times a power of ten, so that about `wanted` ticks reach `largest`."""
    power = 1
    while power * 10 * wanted <= largest:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * wanted >= largest)


class Axes:
    """From steps and bits per byte to places in the picture."""

    def __init__(self, steps, most):
        self.steps, self.most = max(steps, 1), most

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / self.most

    def line(self, values, style):
        points = " ".join(f"{self.x(i + 1):.1f},{self.y(value):.1f}" for i, value in enumerate(values))
        return f'<polyline class="{style}" points="{points}"/>'

    def grid(self):
        for value in range(self.most + 1):
            y = self.y(value)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value}</text>'
        for step in range(0, self.steps + 1, tick_step(self.steps)):
            yield f'<text x="{self.x(step):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step}</text>'
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">steps</text>'
        yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">bits per byte</text>'


def loss_picture(curve, width=50):
    """Of the loss by step: each, and the mean of the last `width`."""
    axes = Axes(len(curve), int(max(curve)) + 1)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
             "<title>Bits per byte of the training texts, by step</title>", f"<style>{STYLE}</style>",
             *axes.grid(), axes.line(curve, "raw"), axes.line(smoothed(curve, width), "smooth"), "</svg>"]
    return "\n".join(lines) + "\n"
