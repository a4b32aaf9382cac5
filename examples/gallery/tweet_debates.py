"""Debates on Twitter: the running example of the paper on chain automata, by PARTITION BY and by chains of replies."""

# %% [markdown]
# # Tweet debates
# The running example of chain-cea-icdt2020: T are tweets, R are replies, and each reply names what it answers. A
# journalist looks for hot debates about a candidate called John. The stream is a short one of the same shape as in
# the paper.

# %%
import pyarrow as pa

rows = [
    # type, id, user, answers, text
    ("T", 123, "ann", None, "#voteforjohn on Sunday"),
    ("R", 201, "bob", 123, "#ihatejohn"),
    ("R", 202, "eva", 343, "#ihatejohn too"),
    ("R", 203, "bob", 123, "#ihatejohn still"),
    ("T", 252, "dan", None, "#voteforjohn, I say"),
    ("R", 204, "eva", 252, "#ihatejohn"),
    ("R", 205, "cid", 204, "#ihatejohn as well"),
    ("R", 206, "fay", 123, "#stophating, please"),
    ("R", 207, "gus", 205, "#stophating, all of you"),
]
type, id, user, answers, text = zip(*rows, strict=True)
events = pa.table(
    {"type": type, "id": id, "user": user, "answers": answers, "text": text, "time": [10 * k for k in range(len(rows))]}
)

# %% [markdown]
# **A tweet and a reply to it.** The first formula of the paper pairs any tweet with any later reply. Comparing the
# two by name leaves the replies to that tweet. Equal values are looked up, so no pair that differs is ever looked at.

# %%
import ceql

PAIRS = """
SELECT x, y
WHERE T AS x ; R AS y
FILTER x[text LIKE '%#voteforjohn%'] AND y[text LIKE '%#ihatejohn%'] {same}
"""
print([match.events for match in ceql.match(PAIRS.format(same=""), events)])
print([match.events for match in ceql.match(PAIRS.format(same="AND x.id = y.answers"), events)])

# %% [markdown]
# **One user hates, another one calms.** One or more replies of the same user, all of them to the tweet, and a last
# one that asks to stop: example 4 of the paper. `PARTITION BY` inside a formula is about the events of that part
# alone.

# %%
DEBATE = """
SELECT x, y, z
WHERE T AS x ; (R+ AS y PARTITION BY user) ; R AS z
FILTER x[text LIKE '%#voteforjohn%'] AND y[text LIKE '%#ihatejohn%'] AND z[text LIKE '%#stophating%']
   AND x.id = y.answers AND x.id = z.answers
"""
debates = ceql.match(DEBATE, events)
print([match.events for match in debates])

# %% [markdown]
# **A chain of replies**, each to the one before: example 6, for which the paper has chain automata. PREV is the event
# before in the match.

# %%
CHAIN = """
SELECT x, y, z
WHERE T AS x ; R+ AS y ; R AS z
FILTER x[text LIKE '%#voteforjohn%'] AND y[text LIKE '%#ihatejohn%' AND answers = PREV.id]
   AND z[text LIKE '%#stophating%' AND answers = PREV.id]
"""
chains = ceql.match(CHAIN, events)
print([match.events for match in chains])
assert [match.events for match in chains] == [(4, 5, 6, 8)]

# %%
ceql.match(DEBATE, events, time_unit="s").timeline()
