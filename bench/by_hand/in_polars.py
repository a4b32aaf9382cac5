"""The questions in polars: each function takes the table with its row numbers, and gives the rows of matched events.

Whoever knows polars sorts by user once (stably, so that each user's events stay in order) and shifts whole columns,
which takes half the time of `.over("user")`; joins only where matches are not neighbours.
"""

from __future__ import annotations

import polars as pl

SAME = pl.col("user") == pl.col("user").shift(1)
HOUR = pl.duration(hours=1)


def by_user(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame.sort("user", maintain_order=True)


def back(column: str, steps: int = 1) -> pl.Expr:
    """A column so many rows before."""
    return pl.col(column).shift(steps)


def one_user(steps: int) -> pl.Expr:
    """True where the row so many rows before is of the same user."""
    return pl.col("user") == back("user", steps)


def rows(*names: str) -> dict[str, pl.Expr]:
    """The rows of neighbours, the last of which is this one."""
    last = len(names) - 1
    return {name: back("row", last - k) for k, name in enumerate(names)}


def neighbours(frame: pl.LazyFrame, condition: pl.Expr, *names: str) -> pl.LazyFrame:
    found = rows(*names)
    return by_user(frame).select(keep=condition & one_user(len(names) - 1), **found).filter("keep").drop("keep")


def ratio(frame: pl.LazyFrame) -> pl.LazyFrame:
    return neighbours(frame, pl.col("v") / back("v") > 8, "a", "b")


def w_shape(frame: pl.LazyFrame) -> pl.LazyFrame:
    down, up = pl.col("v") < back("v"), pl.col("v") > back("v")
    return neighbours(frame, down.shift(3) & up.shift(2) & down.shift(1) & up, *"abcde")


def stuck(frame: pl.LazyFrame) -> pl.LazyFrame:
    same = pl.col("level") == back("level")
    return neighbours(frame, same.shift(3) & same.shift(2) & same.shift(1) & same, *"abcde")


def over_then_drop(frame: pl.LazyFrame) -> pl.LazyFrame:
    over = pl.col("v") > 60
    condition = over.shift(5) & over.shift(4) & over.shift(3) & over.shift(2) & over.shift(1) & (pl.col("v") < 20)
    return neighbours(frame, condition, *"abcdef")


def runs(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Numbers each run together with the event after it; those of five and more of one user are what is asked."""
    high = pl.col("v") > 70
    began = high & ~(high.shift(1) & SAME).fill_null(False)
    ended = ~high & high.shift(1) & SAME
    numbered = by_user(frame).select("row", run=began.cum_sum(), high=high, ended=ended)
    whole = numbered.filter(pl.col("high") | pl.col("ended")).group_by("run").agg("row", pl.col("ended").any())
    long = whole.filter("ended", pl.col("row").list.len() > 4)
    return long.select(hi=pl.col("row").list.head(pl.col("row").list.len() - 1), after=pl.col("row").list.last())


def cart_pay(frame: pl.LazyFrame) -> pl.LazyFrame:
    kept = frame.filter(pl.col("type").is_in(["cart", "pay"]))
    cart = pl.col("type") == "cart"
    last = {name: pl.when(cart).then(name).forward_fill() for name in ("user", "row", "time")}
    soon = (pl.col("time") - last["time"] <= pl.duration(minutes=10)) & (last["user"] == pl.col("user")) & ~cart
    return by_user(kept).select(c=last["row"], p="row", keep=soon).filter("keep").drop("keep")


def following(name: str) -> list[pl.Expr]:
    """The row, user and time of the next event of a type."""
    at = pl.col("type") == name
    return [pl.when(at).then(c).backward_fill().alias(f"{c}_{name}") for c in ("row", "user", "time")]


def funnel(frame: pl.LazyFrame) -> pl.LazyFrame:
    paid = by_user(frame).with_columns(following("pay"))
    at = pl.col("type") == "cart"
    carried = ("row", "row_pay", "user_pay", "time_pay", "user")
    put = [pl.when(at).then(c).backward_fill().alias(f"{c}_cart") for c in carried]
    found = paid.with_columns(put).filter(pl.col("type") == "view")
    soon = pl.col("time_pay_cart") - pl.col("time") <= pl.duration(minutes=30)
    mine = (pl.col("user_pay_cart") == pl.col("user")) & (pl.col("user_cart") == pl.col("user"))
    return found.filter(mine & soon).select(v="row", c="row_cart", p="row_pay_cart")


def rework(frame: pl.LazyFrame) -> pl.LazyFrame:
    kept = by_user(frame.filter(pl.col("type").is_in(["check", "repair"])))
    check = pl.col("type") == "check"
    checked = {name: pl.when(check).then(name).backward_fill() for name in ("row", "user")}
    again = kept.with_columns(**{f"{name}_check": value for name, value in checked.items()})
    carried = ("row", "user", "row_check", "user_check")
    found = again.with_columns(pl.when(~check).then(c).backward_fill().alias(f"{c}_next") for c in carried)
    mine = (pl.col("user_next") == pl.col("user")) & (pl.col("user_check_next") == pl.col("user"))
    return found.filter(check & mine).select(c="row", r="row_next", d="row_check_next")


def alarms(frame: pl.LazyFrame) -> pl.LazyFrame:
    kept = by_user(frame.filter(pl.col("type").is_in(["alarm", "ack"])))
    both = (pl.col("type") == "alarm") & (back("type") == "alarm") & SAME & (pl.col("time") - back("time") <= HOUR)
    return kept.select(a=back("row"), b="row", keep=both).filter("keep").drop("keep")


def late_cancelled(frame: pl.LazyFrame) -> pl.LazyFrame:
    late = frame.filter(pl.col("delay") >= 60).select("user", a="row", since="time")
    cancelled = frame.filter("cancelled").select("user", "time", c="row")
    soon = (pl.col("a") < pl.col("c")) & (pl.col("time") - pl.col("since") <= pl.duration(days=2))
    pairs = cancelled.join(late, on="user").filter(soon).select("a", "c")
    return pairs.join(pairs.rename({"a": "b"}), on="c").filter(pl.col("a") < pl.col("b"))


def sessions(frame: pl.LazyFrame) -> pl.LazyFrame:
    begins = ((pl.col("time") - back("time") > pl.duration(minutes=30)) | ~SAME).fill_null(True)
    ordered = by_user(frame).select("row", at=pl.int_range(pl.len()), begins=begins, before=back("row"))
    first = ordered.filter("begins")
    following = pl.col("at").shift(-1, fill_value=frame.select(pl.len()).collect().item())
    last = pl.col("before").shift(-1, fill_value=by_user(frame).select("row").last().collect().item())
    return first.select(start="row", end=last, n=following - pl.col("at"))


def countries(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Shifts further and further, until nobody has so many events in an hour."""
    ordered = by_user(frame).collect()
    found: list[pl.DataFrame] = []
    steps = 1
    while True:
        soon = one_user(steps) & (pl.col("time") - back("time", steps) <= HOUR)
        other = pl.col("country").to_physical() != back("country", steps).to_physical()
        near = ordered.lazy().select(a=back("row", steps), b="row", other=other, soon=soon).filter("soon").collect()
        if not len(near):
            return pl.concat(found).lazy()
        found.append(near.filter("other").select("a", "b"))
        steps += 1
