"""pvlib: tilt and azimuth of a solar plant, for the most energy in a year with enough of it in winter."""

import pandas
import pvlib

import pied

TIMES = pandas.date_range("2021-01-01", "2021-12-31 23:00", freq="3h", tz="Etc/GMT-1")
PLACE = pvlib.location.Location(48.1, 11.6, altitude=520.0)
SKY, SUN = PLACE.get_clearsky(TIMES, model="haurwitz"), PLACE.get_solarposition(TIMES)


def plant(tilt, azimuth):
    parts = pvlib.irradiance.erbs(SKY["ghi"], SUN["zenith"], TIMES)
    total = pvlib.irradiance.get_total_irradiance(
        tilt, azimuth, SUN["apparent_zenith"], SUN["azimuth"], parts["dni"], SKY["ghi"], parts["dhi"]
    )["poa_global"].fillna(0.0)
    winter = total.index.month.isin([11, 12, 1, 2])
    return {"year": 3.0 * total.sum() / 1e3, "winter": 3.0 * total[winter].sum() / 1e3}


problem = pied.Problem(
    {"tilt": pied.Variable(0.0, 90.0, unit="deg"), "azimuth": pied.Variable(90.0, 270.0, unit="deg")},
    {"year": {"unit": "kWh/m2"}, "winter": {"unit": "kWh/m2"}},
    blackbox=plant, maximize="year", subject_to=["winter >= 480"], noise=0,
)  # fmt: skip

if __name__ == "__main__":
    print(pied.solve(problem, budget=20, seed=0))
