"""One campaign of a laboratory, drawn by its seed, with its truth: what a user states, and what is measured.

4 to 7 settings (choices of 2 to 12 labels, rounded numbers, integers, logarithmic ranges), 2 to 4 outputs over
different scales, 1 to 3 limits, noise of 1 to 3 % of an output's range, 0, 5, 8 or 15 old rows that are clustered, of
one label, or on a line. In every third some evaluations fail by chance. An impossible one has limits that no settings
meet.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied import Choice, Integer, Problem, Variable

SEARCHED = 40_000  # random settings from which the best ones are improved
POLISHED = 12
MISSED = 0.1  # of the outputs' ranges: by so much the best settings of an impossible campaign break some limit


@dataclass(frozen=True)
class Campaign:
    """One laboratory study with its truth."""

    seed: int
    is_impossible: bool = False
    """Whether its limits are tightened until no settings meet them all."""

    @cached_property
    def _draw(self) -> dict[str, Any]:
        """Everything that is drawn."""
        rng = np.random.default_rng([self.seed, 51])
        numbers, labels = (
            int(rng.integers(3, 6)),
            [int(each) for each in rng.choice([2, 3, 4, 6, 9, 12], rng.integers(1, 3))],
        )
        kinds = [
            str(each) for each in rng.choice(["plain", "round", "log", "integer"], numbers, p=[0.3, 0.4, 0.15, 0.15])
        ]
        m, size = int(rng.integers(2, 5)), numbers
        outputs = []
        for j in range(m):
            shape = "share" if j == 0 else str(rng.choice(["share", "size", "plain"]))
            outputs.append({
                "shape": shape,
                "centre": rng.uniform(0.15, 0.85, size),
                "bend": rng.uniform(0.3, 3.0, size) * rng.choice([-1, -1, 1], size) * (rng.random(size) < 0.8),
                "slope": rng.normal(0.0, 1.2, size),
                "mixed": rng.normal(0.0, 0.8, (size, size)) * (rng.random((size, size)) < 0.3),
                "effect": [rng.normal(0.0, 0.9, count) for count in labels],
                "turn": [rng.normal(0.0, 0.5, (count, size)) * (rng.random(size) < 0.4) for count in labels],
                "level": rng.uniform(-1.0, 1.0), "unit": 10.0 ** rng.uniform(-2, 3),
            })  # fmt: skip
        return {
            "kinds": kinds, "labels": labels, "outputs": outputs, "n": min(int(rng.integers(1, 4)), m - 1) or 1,
            "noise": rng.uniform(0.01, 0.03, m), "cost": rng.uniform(0.0, 0.4, size),
            "prices": [rng.uniform(0.0, 0.3, count) for count in labels], "tight": rng.uniform(0.3, 0.6, 3),
            "old": int(rng.choice([0, 5, 8, 15])), "where": str(rng.choice(["cluster", "label", "line"])),
        }  # fmt: skip

    @cached_property
    def variables(self) -> dict[str, Any]:
        """As a user states them."""
        made: dict[str, Any] = {}
        for i, kind in enumerate(self._draw["kinds"]):
            made[f"x{i}"] = {
                "plain": Variable(0.0, 1.0), "round": Variable(20.0, 90.0, round=0),
                "log": Variable(0.1, 10.0, log=True), "integer": Integer(1, 8),
            }[kind]  # fmt: skip
        for i, count in enumerate(self._draw["labels"]):
            made[f"c{i}"] = Choice(*(f"{'abc'[i]}{label}" for label in range(count)))
        return made

    def unit(self, x: Mapping[str, Any]) -> tuple[ndarray, list[int]]:
        """Settings as shares of their ranges, and the places of their labels."""
        shares = []
        for i, kind in enumerate(self._draw["kinds"]):
            value = float(x[f"x{i}"])
            shares.append({
                "plain": value, "round": (value - 20.0) / 70.0,
                "log": math.log10(max(value, 0.1) * 10.0) / 2.0, "integer": (value - 1) / 7.0,
            }[kind])  # fmt: skip
        return np.array(shares), [int(str(x[f"c{i}"])[1:]) for i in range(len(self._draw["labels"]))]

    def _raw(self, T: ndarray, C: ndarray) -> ndarray:
        """Outputs at many settings, b m: shares and places of labels."""
        found = []
        for out in self._draw["outputs"]:
            s = out["level"] + T @ out["slope"] + ((T - out["centre"]) ** 2) @ out["bend"]
            s = s + np.einsum("bi,ij,bj->b", T, out["mixed"], T)
            for i in range(C.shape[1]):
                s = s + out["effect"][i][C[:, i]] + (T * out["turn"][i][C[:, i]]).sum(1)
            found.append(
                {"share": 100.0 / (1.0 + np.exp(-s)), "size": out["unit"] * np.exp(0.7 * s), "plain": out["unit"] * s}[
                    out["shape"]
                ]
            )
        return np.stack(found, 1)

    @cached_property
    def _pool(self) -> tuple[ndarray, ndarray, ndarray]:
        """Random settings that can be set, and their outputs."""
        rng = np.random.default_rng([self.seed, 52])
        T = rng.random((SEARCHED, len(self._draw["kinds"])))
        C = np.stack([rng.integers(0, count, SEARCHED) for count in self._draw["labels"]], 1)
        T = self._settable(T)
        return T, C, self._raw(T, C)

    def _settable(self, T: ndarray) -> ndarray:
        """The nearest shares that can be set."""
        steps = {"round": 70.0, "integer": 7.0}
        T = np.clip(T, 0.0, 1.0)
        for i, kind in enumerate(self._draw["kinds"]):
            if kind in steps:
                T[:, i] = np.round(T[:, i] * steps[kind]) / steps[kind]
        return T

    @cached_property
    def ranges(self) -> ndarray:
        """From the 2nd to the 98th per cent of each output."""
        low, high = np.quantile(self._pool[2], [0.02, 0.98], axis=0)
        return high - low

    @cached_property
    def limits(self) -> list[tuple[int, float]]:
        """Outputs that have a largest value, and which: met by a part of all settings."""
        Y, draw = self._pool[2], self._draw
        found = []
        for place in range(draw["n"]):
            j = 1 + place if len(draw["outputs"]) > 1 else 0
            found.append((j, float(f"{np.quantile(Y[:, j], draw['tight'][place]):.3g}")))
        if not self.is_impossible:
            return found
        least = -self._climbed(lambda T, C, Y: -self._beyond(Y, found))
        return [(j, float(f"{limit + (least - MISSED) * self.ranges[j]:.6g}")) for j, limit in found]

    def objective(self, T: ndarray, C: ndarray, Y: ndarray) -> ndarray:
        """The profit: what the first output brings, less what settings cost."""
        cost = T @ self._draw["cost"] + sum(prices[C[:, i]] for i, prices in enumerate(self._draw["prices"]))
        return Y[:, 0] - 20.0 * cost

    def excess(self, Y: ndarray) -> ndarray:
        """By how much limits are broken at most, in ranges of the outputs."""
        return self._beyond(Y, self.limits)

    def _beyond(self, Y: ndarray, limits: Sequence[tuple[int, float]]) -> ndarray:
        return np.asarray(np.max([(Y[:, j] - limit) / self.ranges[j] for j, limit in limits], axis=0))

    @cached_property
    def best(self) -> float:
        """The largest profit of settings that meet all limits."""
        return self._climbed(lambda T, C, Y: np.where(self.excess(Y) <= 0, self.objective(T, C, Y), -np.inf))

    def _climbed(self, score: Callable[[ndarray, ndarray, ndarray], ndarray]) -> float:
        """The largest score of all settings, from many random ones and walks from the best."""
        T, C, Y = self._pool
        value = score(T, C, Y)
        rng, order = np.random.default_rng([self.seed, 53]), np.argsort(-value)[:POLISHED]
        T, C, top = T[order], C[order], value[order]
        for scale in np.repeat([0.2, 0.1, 0.05, 0.02, 0.01, 0.003], 40):
            near = self._settable(T + scale * rng.normal(size=T.shape) * (rng.random(T.shape) < 0.6))
            labels = np.where(rng.random(C.shape) < 0.1, rng.integers(0, self._draw["labels"], C.shape), C)
            value = score(near, labels, self._raw(near, labels))
            better = value > top
            T, C, top = np.where(better[:, None], near, T), np.where(better[:, None], labels, C), np.maximum(top, value)
        return float(top.max())

    @cached_property
    def unit_of_value(self) -> float:
        """What regrets are told in: from the median of all settings that meet the limits to the best."""
        T, C, Y = self._pool
        fine = self.excess(Y) <= 0
        return self.best - float(np.median(self.objective(T, C, Y)[fine]))

    @cached_property
    def problem(self) -> Problem:
        """As a user states it: formulas, and no noise, which has to be learned."""
        draw = self._draw
        cost = [
            f"{20 * price:.17g}*{self._share(i, kind)}"
            for i, (kind, price) in enumerate(zip(draw["kinds"], draw["cost"], strict=True))
        ]
        variables = dict(self.variables)
        for i, prices in enumerate(draw["prices"]):
            labels = variables[f"c{i}"].labels
            price = dict(zip(labels, (20.0 * prices).tolist(), strict=True))
            variables[f"c{i}"] = Choice(*labels, properties={"price": price})
        charged = [*cost, *(f"c{i}.price" for i in range(len(draw["labels"])))]
        return Problem(
            variables,
            [f"y{j}" for j in range(len(draw["outputs"]))],
            maximize=f"y0 - ({' + '.join(charged)})",
            subject_to={f"limit {place}": f"y{j} <= {limit:.17g}" for place, (j, limit) in enumerate(self.limits)},
        )

    @staticmethod
    def _share(i: int, kind: str) -> str:
        return {
            "plain": f"x{i}", "round": f"(x{i} - 20)/70", "log": f"(log10(x{i}) + 1)/2", "integer": f"(x{i} - 1)/7",
        }[kind]  # fmt: skip

    def truth(self, x: Mapping[str, Any]) -> tuple[float, float, dict[str, float]]:
        """Profit, largest excess over a limit, and outputs at some settings, without noise."""
        shares, places = self.unit(x)
        T, C = shares[None], np.array([places])
        Y = self._raw(T, C)
        return (
            float(self.objective(T, C, Y)[0]),
            float(self.excess(Y)[0]),
            {f"y{j}": float(y) for j, y in enumerate(Y[0])},
        )

    def measured(self, x: Mapping[str, Any], number: int) -> dict[str, float] | None:
        """A measurement, three digits; None where it failed by chance."""
        rng = np.random.default_rng([self.seed, 54, number])
        if self.seed % 3 == 0 and rng.random() < 0.08:
            return None
        _, _, y = self.truth(x)
        noise = self._draw["noise"] * self.ranges * rng.normal(size=len(y))
        return {
            name: float(f"{value + each:.3g}") for (name, value), each in zip(y.items(), noise.tolist(), strict=True)
        }

    @property
    def old(self) -> list[dict[str, Any]]:
        """Settings that were measured before anybody thought of a study."""
        rng, draw = np.random.default_rng([self.seed, 55]), self._draw
        d, count = len(draw["kinds"]), draw["old"]
        start, way = rng.uniform(0.2, 0.8, d), rng.normal(0.0, 0.3, d)
        rows = []
        for number in range(count):
            shares = {
                "cluster": start + rng.normal(0.0, 0.08, d),
                "label": rng.random(d),
                "line": start + way * (number / max(1, count - 1) - 0.5),
            }
            places = [0 if draw["where"] == "label" else int(rng.integers(0, each)) for each in draw["labels"]]
            rows.append(self.named(self._settable(shares[draw["where"]][None])[0], places))
        return rows

    @property
    def declared_in_time(self) -> int:
        """Evaluations within which it should be seen that no settings meet the limits."""
        kinds, labels = self._draw["kinds"], self._draw["labels"]
        return 3 * (sum(labels) + len(kinds)) + 25

    def named(self, shares: ndarray, places: Sequence[int]) -> dict[str, Any]:
        """Settings by name."""
        made: dict[str, Any] = {}
        for i, (kind, share) in enumerate(zip(self._draw["kinds"], shares.tolist(), strict=True)):
            made[f"x{i}"] = {
                "plain": share, "round": round(20.0 + 70.0 * share),
                "log": 0.1 * 100.0**share, "integer": 1 + round(7 * share),
            }[kind]  # fmt: skip
        return made | {f"c{i}": f"{'abc'[i]}{place}" for i, place in enumerate(places)}
