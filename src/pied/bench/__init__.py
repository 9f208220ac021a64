"""Benchmarks: run plans of problems x solvers x seeds, and compare the solvers by tables and figures.

`plan` reads what to run, `runs` performs one task, `drive` performs all and resumes, `ledger` stores how each ended,
`curves` turns trials into arrays. `measures`, `profiles` and `compare` are pure functions on arrays; `pages` writes
tables, `figures` draws. `paper` has the plans and figures of the paper, `illustrate` the data of its illustrations,
`shell` the commands. `away` runs a plan on a machine that has only numpy and scipy, `transfer` imports it.
"""
