"""Measuring on other machines, by TVM's RPC tracker and its servers.

A worker builds here (:mod:`tuner.farm.runner`) and keeps a session with each of several servers
(:mod:`tuner.farm.link`, in a process of its own), which run what any worker runs with its own
device (:mod:`tuner.farm.session`, inside TVM's server, :mod:`tuner.farm.server`). Tracker,
connections, sessions and uploads are TVM's; arguments and answers are JSON.
"""
