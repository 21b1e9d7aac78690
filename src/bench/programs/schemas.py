"""The data sets that sandboxes work on: what their columns mean. datasets.py writes them.

Four kinds that agents are commonly given, with the columns and the precision of well-known public ones. Numbers have
the digits that such files have, not random mantissas: prices in cents, temperatures in tenths of a degree, durations
in whole milliseconds. Categories are skewed, times go forward, some fields are empty, a few rows come twice.

  sales     retail orders (after UCI Online Retail)         price in cents, small counts, discount steps
  stations  hourly weather (after NOAA Global Hourly)       tenths of a unit around daily and yearly courses
  trips     taxi rides (after the NYC TLC trip records)     miles and fares that depend on each other
  requests  a web server's log (after NASA-HTTP)            heavy-tailed sizes and milliseconds
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schema:
    """Names of columns by what they are for."""

    key: str
    time: str
    entity: str
    categories: tuple
    numbers: tuple
    target: str
    text: str

    @property
    def columns(self) -> tuple:
        return (self.key, self.time, self.entity, *self.categories, *self.numbers, self.target, self.text)


SCHEMAS = {
    "sales": Schema(
        "order", "placed", "customer", ("category", "region"), ("price", "quantity", "discount"), "returned", "comment"
    ),
    "stations": Schema(
        "reading", "observed", "station", ("sky", "wind"), ("temperature", "humidity", "pressure"), "rain", "remark"
    ),
    "trips": Schema("trip", "pickup", "cab", ("zone", "payment"), ("miles", "minutes", "fare"), "tipped", "note"),
    "requests": Schema("request", "received", "client", ("path", "method"), ("status", "size", "ms"), "cached", "message"),
}
FILE = "data.csv"
