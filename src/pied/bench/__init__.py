"""The bench: plans of problems x solvers x seeds, their records, and what the records say.

`plan` says what to run, `runs` runs one, `drive` runs all and resumes, `ledger` keeps what belongs to a run beside its
study, `curves` turns records into arrays. `measures`, `profiles` and `compare` are pure functions on arrays; `pages`
writes tables, `figures` draws. `paper` has the plans and figures of the paper, `shell` the commands, `away` runs a plan
on a machine that has nothing but torch, numpy and scipy.
"""
