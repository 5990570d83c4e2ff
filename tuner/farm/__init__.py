"""Measuring on other machines, with TVM's RPC tracker and its servers.

A worker builds here and keeps a session with each of several servers, which measure with their own
devices as any worker does:

- :mod:`tuner.farm.farm`: the servers that a tracker has under a key
- :mod:`tuner.farm.runner`: a job's measuring on several servers
- :mod:`tuner.farm.link`: the worker's end of a session, in a child process
- :mod:`tuner.farm.session`: the server's end, inside TVM's server (:mod:`tuner.farm.server`)

Tracker, connections, sessions and uploads are TVM's; arguments and answers are JSON
(:mod:`tuner.farm.wire`).
"""
